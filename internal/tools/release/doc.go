// Command release prepares a release of all modules of this repository that users import.
//
//	go run ./internal/tools/release v0.2.0        # checks, and prints what it would do
//	go run ./internal/tools/release -do v0.2.0    # writes, tests, commits and tags; it never pushes
//
// Every release has the same version in each published module, and each module requires that version of the others. In
// this repository, replace directives in the go.mod files select the folders instead, which users of a module ignore.
//
// Run .ci/full first: this command runs only the tests that a release can break.
package main
