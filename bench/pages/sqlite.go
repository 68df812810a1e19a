package pages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	_ "modernc.org/sqlite" // the driver
)

// table is a table of SQLite in a file. Its settings are the fastest that suit a cache, whose content can be made
// again. Prepared statements are by name.
type table struct {
	db       *sql.DB
	prepared map[string]*sql.Stmt
}

const schema = `
CREATE TABLE pods (namespace TEXT, name TEXT, phase TEXT, created INTEGER, object BLOB, PRIMARY KEY (namespace, name));
CREATE INDEX by_age ON pods (created, namespace, name);
CREATE INDEX by_phase ON pods (phase, created, namespace, name);`

var statements = map[string]string{
	"put": `INSERT INTO pods VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
		phase = excluded.phase, created = excluded.created, object = excluded.object`,
	"page":    `SELECT object FROM pods ORDER BY created DESC, namespace DESC, name DESC LIMIT ? OFFSET ?`,
	"pageOf":  `SELECT object FROM pods WHERE phase = ? ORDER BY created DESC, namespace DESC, name DESC LIMIT ? OFFSET ?`,
	"count":   `SELECT count(*) FROM pods`,
	"countOf": `SELECT count(*) FROM pods WHERE phase = ?`,
}

func newTable(file string) (*table, error) {
	settings := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(off)", "busy_timeout(10000)"}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	t := &table{db, map[string]*sql.Stmt{}}
	if _, err := db.Exec(schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	for name, text := range statements {
		if t.prepared[name], err = db.Prepare(text); err != nil {
			return nil, errors.Join(fmt.Errorf("statement %s: %w", name, err), db.Close())
		}
	}
	return t, nil
}

// put writes all pods in one transaction.
func (t *table) put(pods []*corev1.Pod) error {
	tx, err := t.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	put := tx.Stmt(t.prepared["put"])
	for _, p := range pods {
		object, err := p.Marshal()
		if err == nil {
			_, err = put.Exec(p.Namespace, p.Name, string(p.Status.Phase), p.CreationTimestamp.Unix(), object)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (t *table) page(phase corev1.PodPhase, skip, size int) ([]*corev1.Pod, error) {
	var rows *sql.Rows
	var err error
	if phase == "" {
		rows, err = t.prepared["page"].Query(size, skip)
	} else {
		rows, err = t.prepared["pageOf"].Query(string(phase), size, skip)
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []*corev1.Pod
	for rows.Next() {
		var object sql.RawBytes
		if err := rows.Scan(&object); err != nil {
			return nil, err
		}
		pod := &corev1.Pod{}
		if err := pod.Unmarshal(object); err != nil {
			return nil, err
		}
		page = append(page, pod)
	}
	return page, rows.Err()
}

func (t *table) count(phase corev1.PodPhase) (n int, err error) {
	if phase == "" {
		err = t.prepared["count"].QueryRow().Scan(&n)
	} else {
		err = t.prepared["countOf"].QueryRow(string(phase)).Scan(&n)
	}
	return n, err
}

func (t *table) close() error { return t.db.Close() }
