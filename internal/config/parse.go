package config

import "reflect"

// root is the file as it is written: local settings and the fleet section side by side.
type root struct {
	Local
	Fleet *Fleet `yaml:"fleet"`
}

// Parse reads a whole file. The error, if any, is Faults: all that is wrong at once.
func Parse(file string, data []byte) (*File, error) {
	r := newReport(file)
	var into root
	into.Local.defaults()
	if n := r.document(data); n != nil {
		r.value("", n, reflect.ValueOf(&into))
		r.checkLocal(&into.Local)
		if into.Fleet != nil {
			r.settle("fleet", into.Fleet)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	f := &File{Local: into.Local, Fleet: into.Fleet}
	if f.Fleet != nil {
		f.FleetDocument = f.Fleet.Document()
	}
	return f, nil
}

// ParseFleet reads the fleet's document alone, as Document writes it and the store keeps it.
func ParseFleet(file string, data []byte) (*Fleet, error) {
	r := newReport(file)
	var f Fleet
	f.defaults()
	if n := r.document(data); n != nil {
		r.value("", n, reflect.ValueOf(&f))
		r.settle("", &f)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return &f, nil
}
