// Package parts has types without deep copies of their own.
package parts

// Part is copied field by field, because another package cannot add a method.
type Part struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}
