//go:build !unix

package watchcache_test

import "time"

// cpu is unknown on this platform.
func cpu() time.Duration { return 0 }
