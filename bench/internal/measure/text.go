package measure

import (
	"math"
	"strconv"
)

// Number formats a number with three significant digits and separated thousands.
func Number(v float64) string {
	switch abs := math.Abs(v); {
	case v == math.Trunc(v) && abs < 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs < 0.995:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case abs < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case abs < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	unit := math.Pow(10, max(math.Floor(math.Log10(math.Abs(v)))-2, 0))
	text := strconv.FormatFloat(math.Abs(math.Round(v/unit)*unit), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if v < 0 {
		text = "-" + text
	}
	return text
}

// Bytes formats a number of bytes.
func Bytes(b float64) string {
	switch abs := math.Abs(b); {
	case abs >= 1e9:
		return Number(b/1e9) + " GB"
	case abs >= 1e6:
		return Number(b/1e6) + " MB"
	case abs >= 1e3:
		return Number(b/1e3) + " kB"
	}
	return strconv.FormatFloat(b, 'f', 0, 64) + " B"
}

// Seconds formats a time.
func Seconds(s float64) string {
	switch {
	case s >= 1:
		return Number(s) + " s"
	case s >= 1e-3:
		return Number(s*1e3) + " ms"
	case s >= 1e-6:
		return Number(s*1e6) + " us"
	}
	return Number(s*1e9) + " ns"
}
