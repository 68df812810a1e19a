package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	do := flags.Bool("do", false, "write, test, commit and tag instead of printing what would be done")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one argument, the version, such as v0.2.0")
	}
	v, err := parseVersion(flags.Arg(0))
	if err != nil {
		return err
	}
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	r := release{root: root, version: v, day: time.Now(), out: out, test: testRelease}
	if *do {
		return r.do(ctx)
	}
	return r.plan(ctx)
}

// release is one release of the repository in root.
type release struct {
	root    string
	version version
	day     time.Time
	out     io.Writer
	test    func(ctx context.Context, root string, out io.Writer) error // of the files that will be tagged
}

// testRelease runs the tests that depend on versions.
func testRelease(ctx context.Context, root string, out io.Writer) error {
	test := exec.CommandContext(ctx, "go", "test", "./internal/tools/release", "./internal/tools/readme")
	test.Dir, test.Stdout, test.Stderr = root, out, out
	return test.Run()
}

// edits returns the new contents of the files that the release changes, by name. It fails if the release is not
// possible.
func (r *release) edits(ctx context.Context) (map[string][]byte, error) {
	tags, err := output(ctx, r.root, "git", "tag", "--list", "v*")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, tag := range strings.Fields(tags) {
		// Tags that are no versions of ours do not count.
		if before, err := parseVersion(tag); err == nil && r.version.compare(before) <= 0 {
			errs = append(errs, fmt.Errorf("%s is not newer than the tag %s", r.version, before))
		}
	}
	changed, err := output(ctx, r.root, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		errs = append(errs, fmt.Errorf("commit these files first:\n%s", changed))
	}
	edits := map[string][]byte{}
	edit := func(name string, change func([]byte) ([]byte, error)) {
		old, err := os.ReadFile(r.path(name))
		if err == nil {
			edits[name], err = change(old)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	edit(changelogName, func(old []byte) ([]byte, error) { return releaseChangelog(old, r.version, r.day) })
	names, err := modFiles(ctx, r.root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		edit(name, func(old []byte) ([]byte, error) { return requireVersion(old, r.version), nil })
	}
	return edits, errors.Join(errs...)
}

func (r *release) path(name string) string { return r.root + "/" + name }

// tags returns the tag of each published module.
func (r *release) tags() (tags []string) {
	for _, module := range published {
		tags = append(tags, module.tag(r.version))
	}
	return tags
}

// plan prints what do would do.
func (r *release) plan(ctx context.Context) error {
	edits, err := r.edits(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		fmt.Fprintln(r.out, "write", name)
	}
	fmt.Fprintln(r.out, "test, and commit")
	for _, tag := range r.tags() {
		fmt.Fprintln(r.out, "tag", tag)
	}
	fmt.Fprintln(r.out, "\nNothing was changed. To do all this, run .ci/full, then: go run ./internal/tools/release -do", r.version)
	return nil
}

// do writes the files, tests, commits and tags.
func (r *release) do(ctx context.Context) error {
	edits, err := r.edits(ctx)
	if err != nil {
		return err
	}
	for name, content := range edits {
		if err := os.WriteFile(r.path(name), content, 0o644); err != nil {
			return err
		}
	}
	if err := r.test(ctx, r.root, r.out); err != nil {
		return fmt.Errorf("the tests failed (git restore . undoes what was written): %w", err)
	}
	if _, err := output(ctx, r.root, "git", "commit", "--all", "--message", "Release "+r.version.String()); err != nil {
		return err
	}
	for _, tag := range r.tags() {
		if _, err := output(ctx, r.root, "git", "tag", "--annotate", tag, "--message", tag); err != nil {
			return err
		}
	}
	fmt.Fprintln(r.out, "Committed and tagged. To publish: git push --atomic origin HEAD", strings.Join(r.tags(), " "))
	return nil
}

// output runs a command in a folder and returns what it prints, without the space at both ends.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	out, err := command.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s: %w\n%s", command, err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
