package status

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// List is the progress of the list of a [Reflector]: of the one under way, or of the last one.
type List struct {
	// Began is the time at which the list began. Zero means that there was none.
	Began time.Time
	// Ended is the time at which it ended, or failed. Zero means that it is under way, or that there was none.
	Ended time.Time
	// Objects is the number of objects read so far, or loaded from a saved state.
	Objects int
	// Bytes counts the bytes of the bodies that it has received so far, without compression.
	Bytes int64
	// Total is the number of objects that the list will have: those read so far, and those that remain, as the server
	// said with the latest page. Zero means that it is not known. The server does not say it in a streaming list, for
	// selectors, and before the end of the first page.
	Total int
	// Rate is the number of objects that the list under way has read a second so far, and Left an estimate of the time
	// until its end. Zero means that it is not known: no list is under way, or for Left, Total is not known.
	Rate float64
	Left time.Duration
	// Forecast compares the first list with the memory limit. It is the zero value after the list, in later lists, and
	// while the list is far from the limit.
	Forecast Forecast
}

// Forecast estimates how much memory the first list of a [Reflector] will take. The estimates come from the sizes of
// some of its objects, in bytes.
type Forecast struct {
	// Loaded is the memory that the objects read so far take.
	Loaded int64
	// Whole is the memory that the whole collection will take. Zero means that it is not known, because List.Total is not.
	Whole int64
	// Process is the memory that the process will use when all first lists of the client have ended. It lacks the objects
	// of lists whose Total is not known that have not arrived yet.
	Process int64
	// Limit is the memory limit of the process: the lower one of GOMEMLIMIT and the limit of its cgroups. LimitedBy says
	// which one. Zero means that none is known.
	Limit     int64
	LimitedBy string
	// Exceeded is true if Process is above four fifths of Limit. The informer has then logged a warning.
	Exceeded bool
	// Informer is the memory that the objects of all first lists of the informer will take, and Max is Config.MaxMemory.
	// Zero Max means no limit; Informer is then zero, too.
	Informer, Max int64
	// Shared, Compact and Metadata are the memory that the same objects would take with LayoutShared, with LayoutCompact,
	// and as *metav1.PartialObjectMetadata: the whole collection, or the objects read so far if Whole is not known. Zero
	// means that it is not known, or that it would save nothing.
	Shared, Compact, Metadata int64
}

// String describes the progress and the forecast, such as "30,000 of 88,000 objects, about 12s left, 190 MB received".
func (l List) String() string {
	text := count(l.Objects) + " objects so far"
	if l.Total > 0 {
		text = count(l.Objects) + " of " + count(l.Total) + " objects"
	}
	if l.Left >= time.Second {
		text += ", about " + l.Left.Round(time.Second).String() + " left"
	}
	f := l.Forecast
	if f.Loaded == 0 {
		return text + ", " + size(l.Bytes) + " received"
	}
	text += ", " + size(f.Loaded) + " of memory; "
	if f.Whole > 0 {
		text += "the whole collection will take about " + size(f.Whole)
	} else {
		text += "how many remain is not known"
	}
	switch {
	case f.Limit > 0 && f.Whole > 0:
		text += fmt.Sprintf(", and the process about %s of a limit of %s (%s)", size(f.Process), size(f.Limit), f.LimitedBy)
	case f.Limit > 0:
		text += fmt.Sprintf("; the process will use at least %s of a limit of %s (%s)", size(f.Process), size(f.Limit),
			f.LimitedBy)
	}
	if f.Max > 0 {
		text += fmt.Sprintf("; the informer will hold at least %s, and Config.MaxMemory is %s", size(f.Informer), size(f.Max))
	}
	if others := f.others(); others != "" {
		text += "; " + others
	}
	return text
}

// others describes the layouts that would save memory.
func (f *Forecast) others() string {
	var others []string
	for _, other := range []struct {
		name  string
		bytes int64
	}{{"LayoutShared", f.Shared}, {"LayoutCompact", f.Compact}, {"metadata only", f.Metadata}} {
		if other.bytes == 0 {
			continue
		}
		if len(others) == 0 {
			other.name += " would take"
		}
		others = append(others, other.name+" "+size(other.bytes))
	}
	return strings.Join(others, ", ")
}

// size returns a number of bytes for people, such as "760 MB".
func size(n int64) string {
	value, unit := float64(n), "B"
	for _, larger := range []string{"kB", "MB", "GB", "TB"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, larger
	}
	digits := 0
	if value < 9.95 && unit != "B" {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + unit
}

// count returns n with thousands separators.
func count(n int) string {
	text := strconv.Itoa(n)
	for end := len(text) - 3; end > 0 && text[end-1] != '-'; end -= 3 {
		text = text[:end] + "," + text[end:]
	}
	return text
}
