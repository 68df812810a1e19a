// Package browser tests the page of package debugpage in Chromium. It is a module of its own, so that the library does
// not depend on the driver of a browser.
//
//	apt-get install chromium
//	go test ./...
//	go test ./... -update    # also writes the images of docs/debugpage.md
package browser
