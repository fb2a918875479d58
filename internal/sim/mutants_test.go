package sim

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
)

// mutant is a guard taken out of the source: what a checker that can be trusted must see.
type mutant struct {
	invariant Invariant
	guard     string
	within    Hunt // it must be seen
	edits     []edit
}

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, old, new string }

// moduleRoot is the module's.
const moduleRoot = "../.."

// readMutants reads testdata/mutants/N.txt for each invariant.
func readMutants(t *testing.T) (all []mutant) {
	for i := Invariant(1); i <= invariants; i++ {
		path := filepath.Join("testdata", "mutants", fmt.Sprintf("%d.txt", i))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("invariant %d (%s) has no mutants: %v", i, i, err)
		}
		for n, block := range strings.Split(string(text), "\n\n") {
			m, err := parseMutant(i, block)
			if err != nil {
				t.Fatalf("%s, block %d: %v", path, n+1, err)
			}
			if m.guard != "" {
				all = append(all, m)
			}
		}
	}
	return all
}

// parseMutant reads one block: the guard, the seeds, perhaps how many hosts and under which
// faults, or how few of them, then for each edit the file, what stands there ("- ") and what instead ("+ ").
func parseMutant(i Invariant, block string) (mutant, error) {
	m := mutant{invariant: i}
	var e edit
	lines := bufio.NewScanner(strings.NewReader(block))
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "guard: "):
			m.guard = line[len("guard: "):]
		case strings.HasPrefix(line, "kill: "):
			if _, err := fmt.Sscanf(line, "kill: within %d seeds from %d", &m.within.Seeds, &m.within.First); err != nil {
				return m, fmt.Errorf("%q: %w", line, err)
			}
		case strings.HasPrefix(line, "hosts: "):
			m.within.Hosts, _ = strconv.Atoi(line[len("hosts: "):])
		case strings.HasPrefix(line, "few: "):
			m.within.Few, _ = strconv.Atoi(line[len("few: "):])
		case strings.HasPrefix(line, "fault: "):
			m.within.Faults = append(m.within.Faults, Kind(line[len("fault: "):]))
		case strings.HasPrefix(line, "- "):
			e.old += "\n" + line[2:]
		case strings.HasPrefix(line, "+ "):
			e.new += "\n" + line[2:]
		case strings.HasSuffix(line, ".go"):
			m.edits, e = append(m.edits, e), edit{file: line}
		default:
			return m, fmt.Errorf("%q: is no line of a mutant", line)
		}
	}
	m.edits = append(m.edits, e)[1:]
	if m.guard != "" && (m.within.Seeds == 0 || len(m.edits) == 0) {
		return m, fmt.Errorf("%q: neither seeds nor an edit", m.guard)
	}
	return m, nil
}

// changed returns the files that a mutant changes, each with its text as the mutant has it.
func (m mutant) changed() (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(filepath.Join(moduleRoot, e.file))
		if err != nil {
			return nil, err
		}
		text, ok := texts[path] // a second edit of a file finds the first one done
		if !ok {
			all, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = string(all)
		}
		old, instead := strings.TrimPrefix(e.old, "\n"), strings.TrimPrefix(e.new, "\n")
		if n := strings.Count(text, old); n != 1 || old == "" {
			return nil, fmt.Errorf("%s has this %d times, not once; was it written anew?\n%s", e.file, n, old)
		}
		texts[path] = strings.Replace(text, old, instead, 1)
	}
	return texts, nil
}

// Each guard, taken out of the production code, must be missed by the checker within the
// seeds that the list allows; else nobody knows what a clean run is worth.
func TestMutantsAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("plays close to two hundred mutants")
	}
	all := readMutants(t)
	found := make([]Caught, len(all))
	p := buildPlayers(t, all)
	t.Run("mutants", func(t *testing.T) {
		for i, m := range all {
			t.Run(fmt.Sprintf("%d/%s", m.invariant, m.guard), func(t *testing.T) {
				t.Parallel()
				found[i] = p.hunt(t, i)
				if found[i].Invariant == 0 {
					t.Errorf("the checker does not see: %s (invariant %d, %s), in %d seeds from %d", m.guard, m.invariant, m.invariant, m.within.Seeds, m.within.First)
				}
			})
		}
	})
	t.Log("\n" + tableOf(all, found))
}

// tableOf says who was killed, when, and by which invariant.
func tableOf(all []mutant, found []Caught) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "inv.\tguard\tseed\tevents\tcaught by")
	for i, m := range all {
		by := "itself"
		switch got := found[i]; {
		case got.Invariant == 0:
			by = "NOBODY"
		case got.Invariant != int(m.invariant):
			by = fmt.Sprintf("%d, %s", got.Invariant, Invariant(got.Invariant))
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\n", m.invariant, m.guard, found[i].Seed, found[i].Events, by)
	}
	w.Flush()
	return b.String()
}

// Each guard of each invariant has a mutant, or a reason why none could be seen; and no
// mutant is of a guard that nobody has heard of, or of a text that was written anew.
func TestEveryGuardHasAMutant(t *testing.T) {
	has := map[string]Invariant{}
	for _, m := range readMutants(t) {
		if other, twice := has[m.guard]; twice {
			t.Errorf("%q has two mutants, for invariants %d and %d", m.guard, other, m.invariant)
		}
		has[m.guard] = m.invariant
		if !slices.Contains(m.invariant.Guards(), m.guard) {
			t.Errorf("guards.go does not list %q for invariant %d", m.guard, m.invariant)
		}
		if _, err := m.changed(); err != nil {
			t.Errorf("the mutant of %q: %v", m.guard, err)
		}
	}
	redundant := readRedundant(t)
	for i := Invariant(1); i <= invariants; i++ {
		if len(i.Guards()) == 0 {
			t.Errorf("invariant %d (%s) has no guard", i, i)
		}
		for _, guard := range i.Guards() {
			if (has[guard] == i) == redundant[guard] {
				t.Errorf("invariant %d: %q must have a mutant, or else a reason in redundant.txt", i, guard)
			}
		}
	}
}

// readRedundant reads the guards that need no mutant; each has its reason, and stands where
// the list says.
func readRedundant(t *testing.T) map[string]bool {
	text, err := os.ReadFile("testdata/mutants/redundant.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, block := range strings.Split(string(text), "\n\n") {
		guard, rest, ok := strings.Cut(strings.TrimPrefix(block, "guard: "), "\nbecause: ")
		if !ok {
			continue
		}
		m, err := parseMutant(0, rest[strings.Index(rest, "\n")+1:])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.changed(); err != nil {
			t.Errorf("the redundant guard %q: %v", guard, err)
		}
		found[guard] = true
	}
	return found
}
