package snapshotfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"testing"
	"testing/iotest"
)

// written returns a file with these records.
func written(t testing.TB, header string, records ...Record) []byte {
	var file bytes.Buffer
	w, err := NewWriter(&file, []byte(header))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if int64(file.Len()) != w.Written() {
		t.Errorf("Written returns %d for a file of %d bytes", w.Written(), file.Len())
	}
	return file.Bytes()
}

// content returns the header and the records of a file.
func content(r io.Reader) (header string, records []Record, err error) {
	in, err := NewReader(r)
	if err != nil {
		return "", nil, err
	}
	for {
		block, err := in.Next(nil)
		if err == io.EOF {
			return string(in.Header), records, nil
		}
		if err != nil {
			return "", nil, err
		}
		for len(block) > 0 {
			var r Record
			if r, block, err = Cut(block); err != nil {
				return "", nil, err
			}
			records = append(records, r)
		}
	}
}

func someRecords() []Record {
	records := []Record{{Format: 1, Kind: "PodList", APIVersion: "v1", Raw: []byte("one")}, {Raw: []byte{}}}
	for i := range 40 {
		records = append(records, Record{Raw: bytes.Repeat([]byte{byte(i)}, i*1000)})
	}
	return records
}

func TestReaderReturnsWhatTheWriterGot(t *testing.T) {
	for name, records := range map[string][]Record{
		"none": nil, "one": someRecords()[:1], "several blocks": someRecords(), "large": {{Raw: make([]byte, 3<<20)}, {Raw: []byte("x")}},
	} {
		t.Run(name, func(t *testing.T) {
			file := written(t, "head", records...)
			for _, in := range []io.Reader{bytes.NewReader(file), iotest.OneByteReader(bytes.NewReader(file))} {
				header, got, err := content(in)
				if err != nil || header != "head" || len(got) != len(records) || len(got) > 0 && !reflect.DeepEqual(got, records) {
					t.Errorf("header %q, %d records, %v", header, len(got), err)
				}
			}
		})
	}
}

// Each change of a bit or byte shows, and so does each file that ends early, or has more bytes. With the top bit of its length set,
// a block would have a negative length where int has 32 bits.
func TestEveryDamageShows(t *testing.T) {
	file := written(t, "head", someRecords()[:8]...)
	for i := range file {
		for _, flip := range []byte{1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff} {
			damaged := bytes.Clone(file)
			damaged[i] ^= flip
			_, records, err := content(bytes.NewReader(damaged))
			var damage *DamagedError
			var version *VersionError
			if !errors.As(err, &damage) && !(i == len(magic) && errors.As(err, &version)) {
				t.Fatalf("byte %d ^ %#x: %d records, %v", i, flip, len(records), err)
			}
		}
		if _, _, err := content(bytes.NewReader(file[:i])); err == nil {
			t.Fatalf("the first %d of %d bytes show no damage", i, len(file))
		}
	}
	if _, _, err := content(bytes.NewReader(append(bytes.Clone(file), 0))); err == nil {
		t.Error("a byte after the end shows no damage")
	}
}

// Blocks of different files do not fit together, and neither do those of one file in another order.
func TestBlocksBelongToTheirFile(t *testing.T) {
	a := written(t, "a", Record{Raw: []byte("same")})
	b := written(t, "b", Record{Raw: []byte("same")})
	if len(a) != len(b) {
		t.Fatal("the files have different lengths")
	}
	head := len(written(t, "a")) - prefix - 1 - 4 // without the end, which has a payload of one byte
	mixed := append(bytes.Clone(a[:head]), b[head:]...)
	if _, _, err := content(bytes.NewReader(mixed)); err == nil {
		t.Error("a header and the records of another file show no damage")
	}
}

func TestErrorOfTheFileIsNoDamage(t *testing.T) {
	broken := errors.New("broken")
	_, _, err := content(io.MultiReader(bytes.NewReader(written(t, "head")[:20]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := NewWriter(io.Discard, make([]byte, MaxHeader+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("header: %v", err)
	}
	w, _ := NewWriter(io.Discard, nil)
	if err := w.Append(Record{Raw: make([]byte, MaxObject+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("object: %v", err)
	}
}

// A length in a hostile file costs no memory.
func TestLengthsCostNoMemory(t *testing.T) {
	file := written(t, "head")
	offset := len(file) - prefix - 1 - 4
	binary.LittleEndian.PutUint32(file[offset+1:], maxBlock)
	binary.LittleEndian.PutUint32(file[offset+5:], maxBlock)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := content(bytes.NewReader(file)); err == nil {
		t.Error("no damage")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("allocated %d bytes", n)
	}
}

// No file makes a reader panic. One that it reads to the end is what the writer writes for the same content.
func FuzzReader(f *testing.F) {
	for n := range 4 {
		f.Add(written(f, fmt.Sprint("head", n), someRecords()[:n]...))
	}
	f.Add([]byte(magic))
	f.Add([]byte(magic + "\x02"))
	f.Fuzz(func(t *testing.T, file []byte) {
		header, records, err := content(bytes.NewReader(file))
		if err != nil {
			return
		}
		again, got, err := content(bytes.NewReader(written(t, header, records...)))
		if err != nil || again != header || !reflect.DeepEqual(got, records) {
			t.Errorf("%q %v differs from %q %v: %v", again, got, header, records, err)
		}
	})
}

// Records need not come from a file with right checksums.
func FuzzCut(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01x"))
	f.Add([]byte("\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, block []byte) {
		for len(block) > 0 {
			var err error
			if _, block, err = Cut(block); err != nil {
				return
			}
		}
	})
}
