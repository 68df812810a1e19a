package status

import (
	"encoding/json"
	"errors"
	"testing"
)

// A status with an error can be marshalled, with the texts of its enumerations and without the error.
func TestStatusesAreMarshalledWithoutErrors(t *testing.T) {
	secret := errors.New("the token xyz is wrong")
	for want, value := range map[string]any{
		`{"Host":"","Requests":{"GET 0":1,"PUT 409":2},"Latencies":null,"Throttled":{"Count":0,"Sum":0,"Max":0,"Buckets":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]},"RecentRequests":0,"RecentFailures":0,"LastSuccess":"0001-01-01T00:00:00Z","LastErrorTime":"0001-01-01T00:00:00Z"}`: Client{
			Requests: map[RequestKind]uint64{{Method: "GET"}: 1, {Method: "PUT", Code: 409}: 2}, LastError: secret},
	} {
		got, err := json.Marshal(value)
		if err != nil || string(got) != want {
			t.Errorf("%T: %s, %v, want %s", value, got, err, want)
		}
	}
}
