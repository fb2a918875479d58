package pictures

import (
	"encoding/json"
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// played is what of `plimsoll sim density -o json` is drawn.
type played struct {
	HostMB       float64 `json:"host_mb"`
	ConfiguredMB float64 `json:"configured_mb"`
	Policies     []struct {
		Policy  string  `json:"policy"`
		PerHost float64 `json:"per_host"`
		Over    float64 `json:"over_physical_s"`
		Seconds float64 `json:"host_s"`
		Most    float64 `json:"most_resident_mb"`
	} `json:"policies"`
}

// drawDensity is how many sandboxes a host holds by each policy, and how full it was in its
// fullest second.
func drawDensity() ([]byte, error) {
	text, err := data.ReadFile("data/density.json")
	if err != nil {
		return nil, err
	}
	var d played
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	last := d.Policies[len(d.Policies)-1]
	title := fmt.Sprintf("By what was learned a host holds %.0f sandboxes, by what is configured %.0f;\nneither was ever over the memory there is", last.PerHost, d.Policies[0].PerHost)
	about := fmt.Sprintf("Real coding agents of %s MiB on hosts of %s, always full, in batches of 1, 32 and 74;\n%s seconds for each policy, played by the host's own rules.",
		svg.Amount(d.ConfiguredMB), svg.Amount(d.HostMB), svg.Amount(last.Seconds))
	c := &svg.Canvas{Width: width, Height: 350}
	c.Head(title, about)
	many, most := svg.Scale{From: 0, To: 130, At: 170, End: 440}, svg.Scale{From: 0, To: 40 << 10, At: 510, End: 830}
	c.Text(many.At, 120, "bold", "sandboxes on a host, mean")
	c.Text(most.At, 120, "bold", "most resident in any second, MiB")
	color := map[string]string{"committed": "grey", "essay": "purple", "learned": "orange"}
	what := map[string]string{"committed": "what is configured", "essay": "a reserve till seen", "learned": "a reserve for life"}
	for i, p := range d.Policies {
		y := 138 + 62*float64(i)
		c.Text(20, y+15, "bold "+color[p.Policy], p.Policy)
		c.Text(20, y+32, "small", what[p.Policy])
		c.Rect("bar "+color[p.Policy], many.At, y, many.Px(p.PerHost)-many.At, 34)
		c.Text(many.Px(p.PerHost)+8, y+22, "bold", fmt.Sprintf("%.1f", p.PerHost))
		c.Rect("bar "+color[p.Policy], most.At, y, min(most.Px(p.Most), most.Px(d.HostMB))-most.At, 34)
		class := "small"
		if p.Most > d.HostMB {
			c.Rect("bar red", most.Px(d.HostMB), y, most.Px(p.Most)-most.Px(d.HostMB), 34)
			class = "red"
		}
		c.Text(most.At, y+48, class, fmt.Sprintf("%s, over physical memory for %s s", svg.Amount(p.Most), svg.Amount(p.Over)))
	}
	c.Line("mark", most.Px(d.HostMB), 130, most.Px(d.HostMB), 318)
	c.Text(most.Px(d.HostMB), 334, "small mid", fmt.Sprintf("the machine has %s", svg.Amount(d.HostMB)))
	c.Line("axis", many.At, 132, many.At, 318)
	c.Line("axis", most.At, 132, most.At, 318)
	return c.File(title, about), nil
}
