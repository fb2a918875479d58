package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// change is a file's fleet section beside the one in force.
type change struct {
	client   *client.Client
	old      *api.ConfigDocument
	document string
	diff     string
}

func (a *app) change(ctx context.Context, path string) (change, error) {
	f, err := parseConfig(path)
	if err != nil {
		return change{}, err
	}
	if f.Fleet == nil {
		return change{}, &Failure{ExitConfig, fmt.Errorf("%s has no section fleet, so there is nothing to apply", path), "plimsoll config example shows one"}
	}
	c, _, err := a.connect()
	if err != nil {
		return change{}, err
	}
	old, err := c.Config(ctx)
	if errors.Is(err, api.NotFound) {
		old, err = &api.ConfigDocument{}, nil
	}
	if err != nil {
		return change{}, err
	}
	document, err := withTokens(f, old)
	return change{c, old, document, config.Diff(old.Document, document)}, err
}

// withTokens is the file's fleet section with the tokens in force where it says nothing of
// them: a file that is kept elsewhere takes no token away by not knowing it.
func withTokens(f *config.File, old *api.ConfigDocument) (string, error) {
	if old.Document == "" {
		return f.FleetDocument, nil
	}
	inForce, err := parseInForce(old)
	if err != nil {
		return "", err
	}
	f.Fleet.KeepTokens(inForce)
	return f.Fleet.Document(), nil
}

func parseInForce(doc *api.ConfigDocument) (*config.Fleet, error) {
	fleet, err := config.ParseFleet(fmt.Sprintf("generation %d", doc.Generation), []byte(doc.Document))
	if err != nil {
		return nil, &Failure{ExitConfig, fmt.Errorf("the configuration in force is not readable by this version: %w", err), "use the plimsoll of the server's version"}
	}
	return fleet, nil
}

// maxConfig bounds a file, so that a wrong one is not read whole.
const maxConfig = 1 << 20

func parseConfig(path string) (*config.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &Failure{ExitUsage, err, "plimsoll config example > plimsoll.yaml makes one to begin with"}
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	switch {
	case err != nil:
		return nil, &Failure{ExitUsage, err, "name a readable file"}
	case len(data) > maxConfig:
		return nil, &Failure{ExitConfig, fmt.Errorf("%s is larger than %d bytes", path, maxConfig), "is it the right file?"}
	}
	return config.Parse(path, data)
}
