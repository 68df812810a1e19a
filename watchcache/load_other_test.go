//go:build !unix

package watchcache_test

import "time"

// cpu is not known here.
func cpu() time.Duration { return 0 }
