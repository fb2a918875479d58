package pictures

import (
	"encoding/json"
	"fmt"
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
		amount(d.ConfiguredMB), amount(d.HostMB), amount(last.Seconds))
	c := &canvas{height: 350}
	c.head(title, about)
	many, most := scale{0, 130, 170, 440}, scale{0, 40 << 10, 510, 830}
	c.text(many.at, 120, "bold", "sandboxes on a host, mean")
	c.text(most.at, 120, "bold", "most resident in any second, MiB")
	color := map[string]string{"committed": "grey", "essay": "purple", "learned": "orange"}
	what := map[string]string{"committed": "what is configured", "essay": "a reserve till seen", "learned": "a reserve for life"}
	for i, p := range d.Policies {
		y := 138 + 62*float64(i)
		c.text(20, y+15, "bold "+color[p.Policy], p.Policy)
		c.text(20, y+32, "small", what[p.Policy])
		c.rect("bar "+color[p.Policy], many.at, y, many.px(p.PerHost)-many.at, 34)
		c.text(many.px(p.PerHost)+8, y+22, "bold", fmt.Sprintf("%.1f", p.PerHost))
		c.rect("bar "+color[p.Policy], most.at, y, min(most.px(p.Most), most.px(d.HostMB))-most.at, 34)
		class := "small"
		if p.Most > d.HostMB {
			c.rect("bar red", most.px(d.HostMB), y, most.px(p.Most)-most.px(d.HostMB), 34)
			class = "red"
		}
		c.text(most.at, y+48, class, fmt.Sprintf("%s, over physical memory for %s s", amount(p.Most), amount(p.Over)))
	}
	c.line("mark", most.px(d.HostMB), 130, most.px(d.HostMB), 318)
	c.text(most.px(d.HostMB), 334, "small mid", fmt.Sprintf("the machine has %s", amount(d.HostMB)))
	c.line("axis", many.at, 132, many.at, 318)
	c.line("axis", most.at, 132, most.at, 318)
	return c.svg(title, about), nil
}
