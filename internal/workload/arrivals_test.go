package workload

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

const arrivalsHeader = "arrival_ms,batch,vcpu,configured_mib,lifetime_ms,censored\n"

// Rows come in any order and with columns beside those that are needed, and leave in that of
// time; rows of the same instant stay as they stood.
func TestReadArrivals(t *testing.T) {
	file := write(t, "arrivals.csv", "tenant,"+arrivalsHeader+"x,5000,2,0.5,1024,60000,1\ny,0,1,2,768.5,1000,0\ny,5000,1,2,512,0,0\n")
	got, err := ReadArrivals(file)
	want := []Arrival{
		{Batch: 1, CPUMilli: 2000, Configured: 768*gate.MiB + 512*gate.KiB, Life: time.Second},
		{At: 5 * time.Second, Batch: 2, CPUMilli: 500, Configured: gate.GiB, Life: time.Minute, Censored: true},
		{At: 5 * time.Second, Batch: 1, CPUMilli: 2000, Configured: 512 * gate.MiB},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: read %+v\nwant %+v", err, got, want)
	}
}

// Each mistake is told with its line and its remedy.
func TestReadArrivalsMistakes(t *testing.T) {
	for row, want := range map[string]string{
		"-1,1,1,1,1,0":               `a.csv:2: arrival_ms "-1": write whole milliseconds, from 0 to`,
		"0.5,1,1,1,1,0":              `a.csv:2: arrival_ms "0.5"`,
		"999999999999999,1,1,1,1,0":  "(ten years)",
		"0,b,1,1,1,0":                `a.csv:2: batch "b": write a whole number`,
		"0,-1,1,1,1,0":               `a.csv:2: batch "-1"`,
		"0,99999999999,1,1,1,0":      `a.csv:2: batch "99999999999"`,
		"0,1,many,1,1,0":             `a.csv:2: vcpu "many": write a number of cores`,
		"0,1,NaN,1,1,0":              `a.csv:2: vcpu "NaN"`,
		"0,1,1,0,1,0":                `a.csv:2: configured_mib "0": a sandbox is configured with more than nothing`,
		"0,1,1,Inf,1,0":              `a.csv:2: configured_mib "Inf"`,
		"0,1,1,1,,0":                 `a.csv:2: lifetime_ms ""`,
		"0,1,1,1,1,yes":              `a.csv:2: censored "yes": write 1 if it still ran`,
		"0,1,1,1,1,0\n0,1,1,1,1,2":   "a.csv:3: censored",
		"0,1,1,1,1":                  "wrong number of fields",
		"":                           "a.csv: no arrivals in it; write one in each line after the first",
		"0,1,1,1,1,0\n0,1,1,1,\"1,0": "a.csv: ",
	} {
		_, err := ReadArrivals(write(t, "a.csv", arrivalsHeader+row))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", row, err, want)
		}
	}
	if _, err := ReadArrivals(write(t, "a.csv", "arrival_ms,batch\n0,1\n")); err == nil || !strings.Contains(err.Error(), `no column "vcpu"`) {
		t.Error(err)
	}
}

// What is written is read again as it was.
func FuzzArrivals(f *testing.F) {
	f.Add(arrivalsHeader + "5,1,0.25,768.5,1000,0\n0,2,64,1048576,345353033,1\n")
	f.Add(arrivalsHeader + "1,1,1e3,1e-3,1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		first, err := ReadArrivals(write(t, "first.csv", text))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteArrivals(&out, first); err != nil {
			t.Fatal(err)
		}
		second, err := ReadArrivals(write(t, "second.csv", out.String()))
		if err != nil || !slices.Equal(first, second) {
			t.Errorf("%v: %+v became\n%s%+v", err, first, out.String(), second)
		}
	})
}

// traces is where the real data lies, beside the project or where PLIMSOLL_TRACES says.
func traces(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("PLIMSOLL_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "traces")
	}
	file := filepath.Join(folder, name)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("the real data is not here: %v", err)
	}
	return file
}

func TestRealArrivals(t *testing.T) {
	all, err := ReadArrivals(traces(t, "azure_arrivals.csv"))
	if err != nil {
		t.Fatal(err)
	}
	f := figuresOf(all)
	t.Logf("%d arrivals, %+v", len(all), f)
	if len(all) != 31245 || f.p50 != 1 || f.p90 < 5 || f.p90 > 8 || f.inLarge < 0.6 || f.inLarge > 0.75 {
		t.Errorf("%d arrivals, %+v", len(all), f)
	}
}
