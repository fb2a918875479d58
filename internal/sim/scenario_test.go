package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scenarioSeeds is under how many draws of delays each scenario must end as it says.
const scenarioSeeds = 10

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no scenario (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseScenarios("scenarios/"+filepath.Base(file), string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range all {
		for seed := uint64(1); seed <= scenarioSeeds; seed++ {
			if err := sc.Play(seed); err != nil {
				t.Errorf("section %q, seed %d: %v", sc.Name, seed, err)
				break
			}
		}
	}
}
