package informer

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The informer and the subscription of packed objects have every setting of the ones that they implement.
func TestCompactHasEverySetting(t *testing.T) {
	config := Config[*thing]{
		Transform:         func(t *thing) (*thing, error) { return t, nil },
		Filter:            func(*metav1.PartialObjectMetadata) bool { return true },
		KeepManagedFields: true,
		Share:             true,
		Compact:           true,
		Prototype:         &thing{},
		OnDecodeError:     func(*DecodeError) {},
		OnFailure:         func(error) {},
		PagedList:         true,
		PageSize:          3,
		PollEvery:         2,
		AbsentIsSynced:    true,
		AuditEvery:        1,
		WarmStart:         WarmStartConfig{Storage: WarmStartDir("dir"), Revision: "1"},
		Logger:            slog.New(slog.DiscardHandler),
	}
	checkSettings(t, config, compactConfig(config, &packer{}), "Share", "Compact", "Prototype")

	subscription := SubscriptionConfig[*thing]{
		Name:     "name",
		Delivery: DeliverEveryBlocking(7),
		Filter:   func(*thing) bool { return true },
		Resync:   time.Hour,
		NewOnly:  true,
		OnPanic:  func(any) {},
	}
	_, got := compactSubscription(HandlerFuncs[*thing]{}, subscription)
	checkSettings(t, subscription, got)
	_, got = compactSubscription(HandlerFuncs[*thing]{}, SubscriptionConfig[*thing]{})
	if want := fmt.Sprintf("%T", HandlerFuncs[*thing]{}); got.Name != want {
		t.Errorf("the subscription is named %q, want %q", got.Name, want)
	}
}

// checkSettings checks that packed has the fields of config, except for those that packed objects do not need. Functions and
// loggers need only be there.
func checkSettings(t *testing.T, config, packed any, except ...string) {
	t.Helper()
	has := map[string]bool{}
	for _, name := range except {
		has[name] = true
	}
	want, got := reflect.ValueOf(config), reflect.ValueOf(packed)
	for i := range want.NumField() {
		name := want.Type().Field(i).Name
		field := got.FieldByName(name)
		switch {
		case want.Field(i).IsZero():
			t.Errorf("%T.%s is not set in this test", config, name)
		case has[name]:
		case field.IsZero() || field.Comparable() && !field.Equal(want.Field(i)):
			t.Errorf("%T.%s is %v, want %v", packed, name, field, want.Field(i))
		}
	}
}
