// Package client tests what an informer and its clients request, and what they make of the answers, also of those that no
// server should send and of types and functions that misbehave.
package client

import (
	"testing"

	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
