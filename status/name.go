package status

import "fmt"

// nameOf returns the name of a value of an enumeration. names are those of the values from 0. Another value has a text
// with the name of its type.
func nameOf[E ~uint8](value E, typ string, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(value))
}
