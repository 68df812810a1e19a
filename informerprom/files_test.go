package informerprom_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// rules are the fields of alerts.yaml.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// dashboard has the fields of dashboard.json with queries.
type dashboard struct {
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

// functions are the functions, operators and keywords of PromQL that the queries use, and label_values of Grafana.
var functions = strings.Fields("and by count histogram_quantile ignoring increase label_values max max_over_time on or rate sum time unless vector without")

var (
	text     = regexp.MustCompile(`"[^"]*"`)
	matchers = regexp.MustCompile(`\{[^}]*\}`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]`)
	grouping = regexp.MustCompile(`\b(on|ignoring|by|without) *\([^)]*\)`)
	target   = regexp.MustCompile(`, *\w+\)$`) // the label of label_values
	word     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
)

// metricsOf returns the names of the metrics in a query.
func metricsOf(query string) (names []string) {
	if strings.HasPrefix(query, "label_values(") {
		query = target.ReplaceAllString(query, ")")
	}
	for _, dropped := range []*regexp.Regexp{text, matchers, ranges, grouping} {
		query = dropped.ReplaceAllString(query, "")
	}
	for _, name := range word.FindAllString(query, -1) {
		if !slices.Contains(functions, name) {
			names = append(names, name)
		}
	}
	return names
}

// scraped returns the names of the metrics of a program.
func scraped(t *testing.T) (names []string) {
	inProgram(t, func(p *program) {
		p.join()
		for _, match := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)`).FindAllStringSubmatch(p.scrape(), -1) {
			if match[2] == "histogram" {
				names = append(names, match[1]+"_bucket", match[1]+"_sum", match[1]+"_count")
			} else {
				names = append(names, match[1])
			}
		}
	})
	return names
}

// checkQuery fails the test unless query names metrics, and a program has all of them.
func checkQuery(t *testing.T, where, query string, known []string) {
	t.Helper()
	names := metricsOf(query)
	if len(names) == 0 {
		t.Errorf("%s: no metric in %q", where, query)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			t.Errorf("%s: a program has no metric %s", where, name)
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			t.Errorf("%s: %s do not match in %s", where, pair, query)
		}
	}
}

// Each alert uses metrics that a program has.
func TestAlerts(t *testing.T) {
	content, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file rules
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		t.Fatal(err)
	}
	known := scraped(t)
	alerts := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || alerts[rule.Alert] {
				t.Errorf("alert %q has no name, or that of another", rule.Alert)
			}
			alerts[rule.Alert] = true
			checkQuery(t, rule.Alert, rule.Expr, known)
			if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s: severity, summary or description is empty", rule.Alert)
			}
			if rule.For == "" {
				continue
			}
			if _, err := time.ParseDuration(rule.For); err != nil {
				t.Errorf("%s: %v", rule.Alert, err)
			}
		}
	}
	if len(alerts) == 0 {
		t.Error("no alerts")
	}
}

// Each panel and variable of the dashboard uses metrics that a program has.
func TestDashboard(t *testing.T) {
	content, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&d); err != nil {
		t.Fatal(err)
	}
	known := scraped(t)
	ids, places := map[int]bool{}, map[[2]int]bool{}
	for _, panel := range d.Panels {
		place := [2]int{panel.GridPos.X, panel.GridPos.Y}
		if ids[panel.ID] || places[place] || panel.Title == "" || panel.GridPos.X+panel.GridPos.W > 24 {
			t.Errorf("panel %d, %q: its id, title or place is wrong", panel.ID, panel.Title)
		}
		ids[panel.ID], places[place] = true, true
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			checkQuery(t, panel.Title, target.Expr, known)
		}
	}
	if len(ids) == 0 {
		t.Error("no panels")
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			checkQuery(t, v.Name, v.Definition, known)
		}
	}
}

// The check of the queries finds names of metrics, and nothing else.
func TestMetricsOf(t *testing.T) {
	for query, want := range map[string]string{
		`a_b == 0`: "a_b",
		`rate(a{b="c_d"}[5m]) > 0.1 * sum without (e) (f) and on (g, h) i`: "a f i",
		`label_values(a{job=~"$job"}, instance)`:                           "a",
		`a unless ignoring (state) b{state="x) y"} > 0`:                    "a b",
		`unknown(a)`: "unknown a",
	} {
		if got := strings.Join(metricsOf(query), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// The package documentation lists exactly the metrics of a program.
func TestDocumentationHasEachMetric(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("testdata/page.txt") // each metric is in it
	if err != nil {
		t.Fatal(err)
	}
	found := func(pattern string, in []byte) (names []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(in, -1) {
			names = append(names, string(match[1]))
		}
		slices.Sort(names)
		return names
	}
	documented, collected := found(`(?m)^//\t((?:informer|workqueue|reflector|controller|rest_client|leader_election)_\w+) `, source), found(`(?m)^# TYPE (\S+)`, page)
	if !slices.Equal(documented, collected) {
		t.Errorf("documented are\n%q\nbut the metrics are\n%q", documented, collected)
	}
}
