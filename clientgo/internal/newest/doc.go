// Package newest has no code. Its tests use what client-go 0.37 has and 0.36 does not: typed informers, and a group.
package newest
