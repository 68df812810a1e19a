package choice_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/typedinformer/informer/proof/internal/choice"
)

func TestOf(t *testing.T) {
	all := []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("::2"), netip.MustParseAddr("::3")}
	chosen, err := choice.Of(all, []string{"::3", "::1"})
	if want := []netip.Addr{all[2], all[0]}; err != nil || !slices.Equal(chosen, want) {
		t.Errorf("chosen %v, %v; want %v", chosen, err, want)
	}
	if _, err := choice.Of(all, []string{"::1", "::4"}); err == nil || err.Error() != `"::4" is none of ::1, ::2, ::3` {
		t.Errorf("error %v", err)
	}
}
