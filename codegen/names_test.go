package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGoName(t *testing.T) {
	for json, want := range map[string]string{
		"podIP": "PodIP", "podIPs": "PodIPs", "externalIPs": "ExternalIPs", "externalIPsOnly": "ExternalIPsOnly", "hostIp": "HostIP",
		"url": "URL", "urls": "URLs", "URL": "URL", "baseUrl": "BaseURL", "base-urls": "BaseURLs", "ids": "IDs", "userId": "UserID",
		"httpGet": "HTTPGet", "HTTPSOnly": "HTTPSOnly", "tls": "TLS", "dnsPolicy": "DNSPolicy", "caBundle": "CABundle", "cidrs": "CIDRs",
		"apiVersion": "APIVersion", "uid": "UID", "os": "OS", "clusterIPAddress": "ClusterIPAddress", "ipv4": "Ipv4",
		"s3": "S3", "x509": "X509", "3scale": "X3scale", "$ref": "Ref", "x-foo": "XFoo", "x_foo": "XFoo", "a.b/c": "ABC",
		"größe": "Größe", "日本": "X日本", "_": "X", "": "X", "type": "Type", "isCA": "IsCA", "uris": "URIs", "address": "Address",
	} {
		if got := goName(json); got != want {
			t.Errorf("%q becomes %s, want %s", json, got, want)
		}
	}
}

// The name of an enum's constant keeps all letters of its value.
func TestEnumName(t *testing.T) {
	for value, want := range map[string]string{
		"x-y z": "XYZ", "x": "X", "X": "X", "xml": "XML", "3scale": "3scale", "日": "日", "": "Empty", "!=": "U0021U003D", "a": "A",
		"_": "U005F",
	} {
		if got := enumName(value); got != want {
			t.Errorf("%q becomes %s, want %s", value, got, want)
		}
	}
}

// The name of an integer's constant has its value.
func TestNumberName(t *testing.T) {
	for value, want := range map[int64]string{0: "0", 12: "12", -1: "Minus1", math.MinInt64: "Minus9223372036854775808"} {
		if got := numberName(value); got != want {
			t.Errorf("%d becomes %s, want %s", value, got, want)
		}
	}
}

// A property with an unusual name does not take the name of the field of another.
func TestUsualFieldNames(t *testing.T) {
	got := fieldNames([]string{"Host-Name", "Type", "hostName", "type"}, newNamer())
	want := map[string]string{"type": "Type", "Type": "Type2", "hostName": "HostName", "Host-Name": "HostName2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A clash of names does not change other names. The result depends only on the names.
func TestFieldNames(t *testing.T) {
	names := []string{"URL", "url", "Url", "uRL2", "type", "deepCopy"}
	slices.Sort(names)
	got := fieldNames(names, newNamer("DeepCopy"))
	want := map[string]string{"url": "URL", "URL": "URL3", "Url": "URL4", "uRL2": "URL2", "type": "Type", "deepCopy": "DeepCopy2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(slices.Compact(slices.Sorted(maps.Values(got)))) != len(names) {
		t.Errorf("a name is there twice: %v", got)
	}
}

// textOf returns the text of comment lines.
func textOf(lines string) string {
	return strings.ReplaceAll(strings.TrimPrefix(strings.ReplaceAll("\n"+lines, "\n//", "\n"), "\n"), "\n ", "\n")
}

// Comments are formatted as gofmt formats those of functions.
func TestComment(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for text, want := range map[string]string{
		"one":                    "// one\n",
		"\n one\n\n\ttwo  a \n ": "// one\n//\n//\ttwo a\n",
		"a\r\nb\x00\ufeff\u202e": "// a\n// b\n",
		"«x»":                    "// «x»\n",
		"  " + long:              "// " + strings.TrimSpace(strings.Repeat("word ", 22)) + "\n// " + strings.TrimSpace(strings.Repeat("word ", 8)) + "\n",
		"x\n  " + long:           "// x\n//\n//\t" + strings.TrimSpace(strings.Repeat("word ", 22)) + "\n//\t" + strings.TrimSpace(strings.Repeat("word ", 8)) + "\n",
	} {
		if got := unescaper.Replace(comment(text)); got != want {
			t.Errorf("%q becomes\n%swant\n%s", text, got, want)
		} else if again := unescaper.Replace(comment(textOf(got))); again != want { // as gofmt of any version leaves it
			t.Errorf("%q becomes\n%sand then\n%s", text, got, again)
		}
	}
	if strings.Contains(comment("«x»"), "«") {
		t.Error("guillemets are not escaped")
	}
}
