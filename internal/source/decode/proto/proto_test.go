package proto

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Next reads numbers, bodies and groups like the generated code, and nothing beyond the message.
func TestNext(t *testing.T) {
	long := "\xff\xff\xff\xff\xff\xff\xff\xff\xff"
	for message, want := range map[string]Field{
		"\x08\x07":                             {Number: 1, Wire: Varint, To: 2, Bits: 7},
		"\x08\xac\x02":                         {Number: 1, Wire: Varint, To: 3, Bits: 300},
		"\x08" + long + "\x7f":                 {Number: 1, Wire: Varint, To: 11, Bits: 1<<64 - 1},
		"\x12\x02ab!":                          {Number: 2, Wire: Bytes, To: 4, Bytes: []byte("ab")},
		"\x12\x00":                             {Number: 2, Wire: Bytes, To: 2, Bytes: []byte{}},
		"\x19\x01\x00\x00\x00\x00\x00\x00\x80": {Number: 3, Wire: Fixed64, To: 9, Bits: 1 | 1<<63},
		"\x1d\x01\x00\x00\x80":                 {Number: 3, Wire: Fixed32, To: 5, Bits: 1 | 1<<31},
		"\x9b\x06\x0b\x08\x01\x0c\x12\x01x\x9c\x06": {Number: 99, Wire: BeginGroup, To: 11},
		"\x8a\x80\x80\x80\x80\x01\x01x":             {Number: 1, Wire: Bytes, To: 8, Bytes: []byte("x")},
		"":                                          {},
		"\x08":                                      {},
		"\x08" + long + "\xff":                      {},
		"\x12\x02a":                                 {},
		"\x12" + long + "\x01":                      {},
		"\x191234567":                               {},
		"\x1d123":                                   {},
		"\x9b\x06\x08\x01":                          {},
		"\x9b\x06\x0f\x9c\x06":                      {},
		"\x0c":                                      {},
		"\x0f":                                      {},
		"\x00\x00":                                  {},
		"\xfa\xff\xff\xff\xff\x01\x00":              {},
	} {
		got, ok := Next([]byte(message), 0)
		if ok != (want.To > 0) || ok && (got.Number != want.Number || got.Wire != want.Wire || got.From != 0 || got.To != want.To || got.Bits != want.Bits || !slices.Equal(got.Bytes, want.Bytes)) {
			t.Errorf("%q: %+v, %v, want %+v", message, got, ok, want)
		}
		if ok && cap(got.Bytes) > len(got.Bytes) {
			t.Errorf("%q: appending to its bytes would write to the message", message)
		}
	}
}

func TestFieldsStopWhereTheyAreTold(t *testing.T) {
	message := AppendBytes(AppendBytes(AppendBytes(nil, 1, []byte("a")), 2, nil), 300, []byte("c"))
	var numbers []int
	if err := Fields(append(message, 0x08), func(f Field) bool { numbers = append(numbers, f.Number); return true }); !errors.Is(err, ErrMalformed) || !slices.Equal(numbers, []int{1, 2, 300}) {
		t.Errorf("%v, %v", numbers, err)
	}
	numbers = nil
	if err := Fields(append(message, 0x08), func(f Field) bool { numbers = append(numbers, f.Number); return f.Number < 2 }); err != nil || !slices.Equal(numbers, []int{1, 2}) {
		t.Errorf("%v, %v", numbers, err)
	}
}

// Fields walks to the end of each message that the generated code accepts. Each field begins where the one before ends.
func FuzzFields(f *testing.F) {
	meta, _ := (&metav1.ObjectMeta{Name: "a", Generation: -1, Labels: map[string]string{"a": "b"}, Finalizers: []string{"x", ""}}).Marshal()
	f.Add(meta)
	f.Add([]byte("\x9b\x06\x0b\x08\x01\x0c\x12\x01x\x9c\x06"))
	f.Add([]byte("\x8a\x80\x80\x80\x80\x01\x01x\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, message []byte) {
		end := 0
		err := Fields(message, func(f Field) bool {
			if f.From != end || f.To <= f.From || f.To > len(message) || f.Number <= 0 || len(f.Bytes) > f.To-f.From {
				t.Fatalf("%+v after %d", f, end)
			}
			end = f.To
			return true
		})
		if (err == nil) != (end == len(message)) {
			t.Fatalf("%v at %d of %d", err, end, len(message))
		}
		if err != nil && new(metav1.ObjectMeta).Unmarshal(message) == nil {
			t.Fatalf("rejected at %d, but the generated code accepts it", end)
		}
	})
}
