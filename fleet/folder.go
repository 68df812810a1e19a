package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FolderConfig describes a [Folder].
type FolderConfig struct {
	// Dir is the folder.
	Dir string
	// Every is the pause between two looks at the folder. Zero means 10 s.
	Every time.Duration
	// AllowExec allows exec plugins and auth providers, which run programs in this process. False means that a kubeconfig
	// with one is an error of its cluster.
	AllowExec bool
}

// Folder returns a source with a cluster for each kubeconfig file in a folder, also while files come, change and go. The
// name of a cluster is that of the file, without a suffix .yaml, .yml, .json, .conf or .kubeconfig. Its current context
// counts. Files that it names are looked up from the folder; a change of a certificate is seen, too. The folder may be a
// mounted Secret: hidden files and subfolders are ignored, and so are files that editors leave behind, whose names end in
// ~, .bak, .orig, .swp or .tmp.
//
// A file that cannot be read or parsed is an error of its cluster. If the folder cannot be read, all clusters stay.
func Folder(c FolderConfig) Source { return folder(c) }

type folder FolderConfig

const lookEvery = 10 * time.Second

// reading is what a source has read of a cluster.
type reading struct {
	digest  digest
	cluster Cluster
	files   []string  // certificates and keys that the kubeconfig names
	content digest    // of these files
	missing time.Time // since when a hub lacks its object; zero for none
}

func (r reading) isBroken() bool { return r.cluster.Err != nil }

// Run implements Source. It reports each look whose result differs from the one before.
func (f folder) Run(ctx context.Context, report func(map[string]Cluster, error)) error {
	if f.Dir == "" {
		return errors.New("FolderConfig.Dir is empty")
	}
	if f.Every < 0 {
		return fmt.Errorf("FolderConfig.Every is %v: it must not be negative", f.Every)
	}
	ticker := time.NewTicker(cmp.Or(f.Every, lookEvery))
	defer ticker.Stop()
	known, failed := map[string]reading(nil), ""
	for {
		files, changed, err := f.look(known)
		switch {
		case err != nil && err.Error() != failed:
			failed = err.Error()
			report(nil, err)
		case err == nil && (changed || known == nil || failed != ""):
			known, failed = files, ""
			clusters := map[string]Cluster{}
			for name, file := range files {
				clusters[name] = file.cluster
			}
			report(clusters, nil)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// look reads the folder. It parses only files that differ from known ones.
func (f folder) look(known map[string]reading) (files map[string]reading, changed bool, err error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return nil, false, fmt.Errorf("read the folder of clusters: %w", err)
	}
	files = map[string]reading{}
	for _, entry := range entries { // sorted
		path := filepath.Join(f.Dir, entry.Name())
		if info, err := os.Stat(path); isLeftover(entry.Name()) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		name := clusterOf(entry.Name())
		content, err := readFile(path)
		now := reading{digest: sha256.Sum256(fmt.Appendf(content, "\x00%s%v", entry.Name(), err))}
		_, twice := files[name]
		switch before, had := known[name]; {
		case twice:
			now.digest = sha256.Sum256(fmt.Appendf(nil, "%x%x", files[name].digest, now.digest))
			now.cluster.Err = errors.New("several files in the folder have its name")
		case had && before.digest == now.digest && before.cluster.Err == nil && before.content == digestOfFiles(before.files):
			now = before // otherwise, a file that it names may have come or changed
		case err != nil:
			now.cluster.Err = fmt.Errorf("read its kubeconfig: %w", err)
		default:
			now.parse(f, content)
		}
		files[name] = now
	}
	for name, now := range files {
		before, had := known[name]
		changed = changed || !had || before.digest != now.digest || before.content != now.content ||
			(before.cluster.Err == nil) != (now.cluster.Err == nil)
	}
	return files, changed || len(files) != len(known), nil
}

// readFile returns the content of a file. It stops one byte after maxKubeconfig, so that the caller sees the excess.
func readFile(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would block
		return nil, errors.New("it is no regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxKubeconfig+1))
}

// parse reads a kubeconfig, and the certificates and keys that it names. If the client had the names of these files, it
// would have a goroutine that reads them again until the process ends.
func (r *reading) parse(f folder, content []byte) {
	config, err := trust{exec: f.AllowExec, files: true, dir: f.Dir}.kubeconfig(content)
	if err != nil {
		r.cluster.Err = fmt.Errorf("its kubeconfig: %w", err)
		return
	}
	for _, file := range []struct {
		name    *string
		content *[]byte
	}{{&config.CAFile, &config.CAData}, {&config.CertFile, &config.CertData}, {&config.KeyFile, &config.KeyData}} {
		if *file.name == "" {
			continue
		}
		r.files = append(r.files, *file.name)
		if *file.content, err = readFile(*file.name); err != nil || len(*file.content) > maxKubeconfig {
			r.cluster.Err = errors.New("its kubeconfig: a certificate or key that it names cannot be read, or is too large")
		}
		*file.name = ""
	}
	r.content = digestOfFiles(r.files)
	if r.cluster.Err == nil {
		r.cluster.Config = config
	}
}

// digestOfFiles returns a digest of the contents of files.
func digestOfFiles(names []string) digest {
	if len(names) == 0 {
		return digest{}
	}
	sum := sha256.New()
	for _, name := range names {
		content, err := readFile(name)
		fmt.Fprintf(sum, "%d %v\x00", len(content), err != nil)
		sum.Write(content)
	}
	return digest(sum.Sum(nil))
}

// isLeftover reports whether a file is hidden, or one that editors leave behind.
func isLeftover(name string) bool {
	switch filepath.Ext(name) {
	case ".bak", ".orig", ".swp", ".tmp":
		return true
	}
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~")
}

// clusterOf returns the name of the cluster of a file.
func clusterOf(file string) string {
	switch suffix := filepath.Ext(file); suffix {
	case ".yaml", ".yml", ".json", ".conf", ".kubeconfig":
		return strings.TrimSuffix(file, suffix)
	}
	return file
}
