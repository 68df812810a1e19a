// The test of this module compiles what the documents show, with the newest client-go. So go test ./... of the library does
// not, which a new user runs first.
module github.com/typedinformer/informer/internal/tools/readme/snippets

go 1.26.0
