package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	goreflect "reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// BenchmarkCBOR compares the wire formats of custom resources, decoded as unstructured objects: JSON by this library, and CBOR
// (KEP-4222, alpha) by apimachinery. It says whether a third format would pay. B/object is the size of the encoded object.
func BenchmarkCBOR(b *testing.B) {
	const objects = 500
	var asJSON, asCBOR [][]byte
	random := rand.New(rand.NewPCG(1, 2))
	for i := range objects {
		j, err := json.Marshal(benchWidget(random, metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprint("widget-", i), UID: types.UID(fmt.Sprint(i)), ResourceVersion: fmt.Sprint(1000 + i),
			Labels: map[string]string{"app": fmt.Sprint("app-", i%20)},
		}))
		if err != nil {
			b.Fatal(err)
		}
		var normal map[string]any // as a server has it
		if err := json.Unmarshal(j, &normal); err != nil {
			b.Fatal(err)
		}
		c, err := direct.Marshal(normal)
		if err != nil {
			b.Fatal(err)
		}
		asJSON, asCBOR = append(asJSON, j), append(asCBOR, c)
	}
	report := func(b *testing.B, encoded [][]byte, decodeOne func(raw []byte) error) {
		size := 0
		for _, raw := range encoded {
			size += len(raw)
		}
		decoded, seconds, bytes := testkit.Counted(b, objects, func() {
			for i, raw := range encoded {
				if err := decodeOne(raw); err != nil {
					b.Fatal(i, err)
				}
			}
		})
		b.ReportMetric(seconds/decoded*1e6, "us/object")
		b.ReportMetric(bytes/decoded, "alloc-B/object")
		b.ReportMetric(float64(size)/objects, "B/object")
	}
	b.Run("format=JSON", func(b *testing.B) {
		typ, err := decode.TypeOf(goreflect.TypeFor[*unstructured.Unstructured]())
		if err != nil {
			b.Fatal(err)
		}
		d := decode.NewDecoder(typ, true)
		report(b, asJSON, func(raw []byte) error {
			_, err := d.Decode(decode.JSON, raw, decode.Origin{})
			return err
		})
	})
	b.Run("format=CBOR", func(b *testing.B) {
		report(b, asCBOR, func(raw []byte) error {
			var content map[string]any
			if err := direct.Unmarshal(raw, &content); err != nil {
				return err
			}
			if content["metadata"] == nil {
				return fmt.Errorf("an object of %d bytes has no metadata", len(raw))
			}
			return nil
		})
	})
}
