package object

import "k8s.io/apimachinery/pkg/util/resourceversion"

// SameVersion reports whether a and b are the same version of the same object. It returns false for objects without a
// resource version.
func SameVersion[T Object](a, b T) bool {
	rv := b.GetResourceVersion()
	return rv != "" && a.GetResourceVersion() == rv && a.GetUID() == b.GetUID()
}

// Older reports whether resource version a precedes b. The empty version and "0" mean unknown; they precede every known
// version. Older returns false if it cannot compare a with b.
func Older(a, b string) bool {
	if unknown := a == "" || a == "0"; unknown {
		return b != "" && b != "0"
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// Ordered reports whether version is one that can be compared: a decimal number, as KEP-5504 defines it.
func Ordered(version string) bool { return Reached(version, version) }

// Reached reports whether resource version have equals want or follows it. It returns false if it cannot compare them.
func Reached(have, want string) bool {
	c, err := resourceversion.CompareResourceVersion(have, want)
	return err == nil && c >= 0
}
