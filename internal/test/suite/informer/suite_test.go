// Package informer tests informers with a server, by the exported API. A file has one subject, such as audits. Subjects
// that have many files or tests that take long are suites of their own.
package informer

import (
	"testing"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestMain(m *testing.M) { leak.Main(m) }

// pods is the resource of many tests.
var pods = informer.Resource{GroupVersionResource: world.PodGVR}
