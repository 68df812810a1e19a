package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
)

// pageSize is the default number of objects in a page of a list, the same as in client-go.
const pageSize = 500

// Collector collects the objects of a list.
type Collector interface {
	// Intake returns an intake of one response of the list; see NewIntake.
	Intake(f decode.Format, cancel func(error)) Intake
	// Whole reports whether all objects could be decoded.
	Whole() bool
	// Reset drops the objects so far. The list begins again.
	Reset()
	// EndPage is called after a page that is not the last one. remaining is the number of objects behind it, or nil if the
	// server does not say it. An error ends the list.
	EndPage(remaining *int64) error
}

// Listed is the position of a list.
type Listed struct {
	// Version is the resource version of the list: a watch from there sends every change that the list may lack.
	Version string
	// Until is the highest resource version of a page, if the pages are of different versions: the list may have changes
	// up to it, also of objects that the watch sends again. Otherwise, it is empty.
	Until string
}

// with returns the position after a page at that resource version.
func (l Listed) with(version string) Listed {
	switch {
	case version == l.Version:
	case object.Older(version, l.Version):
		l.Until, l.Version = cmp.Or(l.Until, l.Version), version
	case l.Until == "" || object.Older(l.Until, version):
		l.Until = version
	}
	return l
}

// Whole, as the size of a page, asks for the whole list at once.
const Whole = -1

// List reads the collection page by page, at resource version least or later. Zero size means 500 objects a page.
//
// If a continue token has expired, the server may offer another one, for the remaining pages at a later version. List
// takes it if Config.Torn is set. Otherwise it starts again, once, and asks for everything in one page.
//
// The error is ErrNoList if the server answers with 405.
func (s *Source) List(ctx context.Context, least string, size int, into Collector,
	shard string) (listed Listed, err error) {
	ctx, end := s.untilMoved(ctx)
	defer end(&err)
	query, again, torn := atLeast(least), false, ""
	if size != Whole {
		query.Set("limit", limit(size))
	}
	for first := true; query != nil; {
		info, err := s.page(ctx, query, into, shard)
		expired := !first && apierrors.IsResourceExpired(err)
		next := ""
		if status := apierrors.APIStatus(nil); expired && s.config.Torn && errors.As(err, &status) {
			next = status.Status().Continue
		}
		switch {
		case next != "" && query.Get("continue") != torn: // not one that replaced another
			torn = next
			query = url.Values{"limit": query["limit"], "continue": {next}}
			continue
		case expired && again:
			return Listed{}, fmt.Errorf("list: %w: %v", errTokens, err)
		case expired:
			into.Reset()
			query, again, first = atLeast(listed.Version), true, true
			continue
		case err != nil:
			return Listed{}, unlistable(err)
		case first:
			listed, first = Listed{Version: info.ResourceVersion}, false
		default:
			listed = listed.with(info.ResourceVersion)
		}
		if query, err = nextPage(query, info); err != nil {
			return Listed{}, err
		}
		if query == nil {
			break
		}
		if err := into.EndPage(info.RemainingItemCount); err != nil {
			return Listed{}, err
		}
	}
	return listed, nil
}

// ListAt reads the collection page by page, exactly at resource version rv. The error is ErrNoListAt if the server
// cannot do that, or if it sends an object that cannot be decoded.
func (s *Source) ListAt(ctx context.Context, rv string, size int, into Collector, shard string) (err error) {
	if s.HasValues() {
		return fmt.Errorf("%w: a program's function may list at any", ErrNoListAt)
	}
	ctx, end := s.untilMoved(ctx)
	defer end(&err)
	query := url.Values{"resourceVersion": {rv}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchExact)},
		"limit": {limit(size)}}
	for {
		var info decode.ListInfo
		info, err = s.page(ctx, query, into, shard)
		switch {
		case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err),
			apierrors.IsTooManyRequests(err):
			return err
		case errors.As(err, new(apierrors.APIStatus)): // such as 410 Expired, or 500 for a version that etcd has not reached
			return fmt.Errorf("%w: %w", ErrNoListAt, err)
		case err != nil:
			return err
		case !into.Whole():
			return fmt.Errorf("%w: an object cannot be decoded", ErrNoListAt)
		case info.ResourceVersion != rv:
			return fmt.Errorf("%w: the server listed at resource version %.100q, not at %s", ErrNoListAt, info.ResourceVersion,
				rv)
		}
		if query, err = nextPage(query, info); err != nil || query == nil {
			return err
		}
		if err = into.EndPage(info.RemainingItemCount); err != nil {
			return err
		}
	}
}

// untilMoved returns a context that also ends when the client gets another address: a list has all pages of one server.
// end sets the error of the list if that was the reason.
func (s *Source) untilMoved(ctx context.Context) (_ context.Context, end func(failed *error)) {
	here, cancel := context.WithCancelCause(ctx)
	moved := s.config.Client.Moved()
	stay := context.AfterFunc(moved, func() { cancel(context.Cause(moved)) })
	return here, func(failed *error) {
		stay()
		if *failed != nil && ctx.Err() == nil {
			*failed = transport.Because(here, *failed)
		}
		cancel(nil)
	}
}

func limit(size int) string {
	if size == 0 {
		size = pageSize
	}
	return strconv.Itoa(size)
}

// nextPage returns the parameters of the page after that of query, or nil if that was the last one.
func nextPage(query url.Values, info decode.ListInfo) (url.Values, error) {
	switch info.Continue {
	case "":
		return nil, nil
	case query.Get("continue"):
		return nil, errors.New("list: the server sent the same continue token again")
	}
	next := url.Values{"continue": {info.Continue}}
	if query.Has("limit") {
		next["limit"] = query["limit"]
	}
	return next, nil
}

// atLeast returns the parameters of a list at resource version rv or later: any for "0", the newest for "".
func atLeast(rv string) url.Values {
	switch rv {
	case "":
		return url.Values{}
	case "0":
		return url.Values{"resourceVersion": {rv}}
	}
	return url.Values{"resourceVersion": {rv}, "resourceVersionMatch": {string(metav1.ResourceVersionMatchNotOlderThan)}}
}

// ask sends one list request.
func (s *Source) ask(ctx context.Context, query url.Values, shard string) (*transport.Response, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	s.lists.Add(1)
	resp, err := s.send(ctx, query, s.config.AcceptList, shard)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return resp, nil
}

// page reads the response to one list request.
func (s *Source) page(ctx context.Context, query url.Values, into Collector, shard string) (decode.ListInfo, error) {
	request, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !s.config.Background {
		s.config.Client.Precedence.Begin()
		defer s.config.Client.Precedence.End()
	}
	if s.HasValues() {
		return s.valuesPage(request, query, cancel, into)
	}
	resp, err := s.ask(request, query, shard)
	if err != nil {
		return decode.ListInfo{}, err
	}
	defer resp.Close()
	in := into.Intake(resp.Format, cancel)
	defer in.Wait()
	list := decode.NewList(resp, resp.Format, s.config.Kind, s.kind(request))
	for {
		raw, err := list.Next()
		switch err {
		case nil:
			in.Add(raw, false, &list.Info)
			continue
		case decode.ErrMore:
			if err = in.Fill(list); err == nil {
				continue
			}
			err = fmt.Errorf("read list: %w", err)
		case io.EOF:
			err = nil
		default:
			if large := decode.Large(err); large != nil {
				in.AddLarge(large, false)
				continue
			}
		}
		if failed := in.Wait(); failed != nil { // the intake's failure comes first: it may have ended the read
			err = failed
		}
		return list.Info, err
	}
}

// Reaches sends a list request at resource version rv. If the server has not reached rv, IsTooLarge is true for the
// error.
func (s *Source) Reaches(ctx context.Context, rv, shard string) error {
	if s.HasValues() {
		return nil // its versions prove nothing
	}
	s.quiet = time.Now()
	query := atLeast(rv)
	query.Set("limit", "1")
	resp, err := s.ask(ctx, query, shard)
	if err != nil {
		return err
	}
	return resp.Close()
}

// Current returns the resource version that the server has now.
func (s *Source) Current(ctx context.Context, shard string) (rv string, err error) {
	info, _, err := s.head(ctx, shard)
	return info.ResourceVersion, err
}

// Count returns the number of objects that the server has now. It returns false if the server does not say it, as for
// selectors.
func (s *Source) Count(ctx context.Context, shard string) (n int64, ok bool, err error) {
	if s.HasValues() {
		return 0, false, nil
	}
	info, read, err := s.head(ctx, shard)
	switch {
	case err != nil || info.RemainingItemCount == nil && info.Continue != "":
		return 0, false, err
	case info.RemainingItemCount != nil:
		return int64(read) + *info.RemainingItemCount, true, nil
	}
	return int64(read), true, nil
}

// head asks for the first object, and returns the metadata of the list and the number of objects in it.
func (s *Source) head(ctx context.Context, shard string) (info decode.ListInfo, read int, err error) {
	query := atLeast("")
	query.Set("limit", "1")
	resp, err := s.ask(ctx, query, shard)
	if err != nil {
		return info, 0, err
	}
	defer resp.Close()
	list := decode.NewList(resp, resp.Format, s.config.Kind, s.kind(ctx))
	for {
		switch _, err := list.Next(); err {
		case nil:
			read++
		case decode.ErrMore:
			if err := list.Fill(); err != nil {
				return info, 0, fmt.Errorf("read list: %w", err)
			}
		case io.EOF:
			return list.Info, read, nil
		default:
			if decode.Large(err) == nil {
				return info, 0, err
			}
			read++
		}
	}
}
