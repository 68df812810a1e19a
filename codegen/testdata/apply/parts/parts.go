// Package parts has types that an API shares with others.
package parts

// Part has a configuration with a longer name.
type Part struct {
	Name string `json:"name"`
}
