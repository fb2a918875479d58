package microvm

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modules is the set of a kernel's modules. Their package comes without modules.dep, which
// depmod writes when it is installed: what one stands on is read from itself.
type modules struct {
	files   map[string]string // module name -> file
	builtin map[string]bool   // names of those that are in the kernel's image
}

func readModules(dir string) (modules, error) {
	m := modules{files: map[string]string{}, builtin: map[string]bool{}}
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".ko") {
			m.files[moduleName(file)] = file
		}
		return err
	})
	if err != nil {
		return m, fmt.Errorf("list the kernel's modules: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return m, fmt.Errorf("list what is built into the kernel: %w", err)
	}
	for _, file := range strings.Fields(string(text)) {
		m.builtin[moduleName(file)] = true
	}
	return m, nil
}

// moduleName is how the kernel names a module: hyphens of its file are underscores.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".ko"), "-", "_")
}

// order lists the files of modules and of all that they stand on, those first.
func (m modules) order(names ...string) (files []string, err error) {
	for _, name := range names {
		if m.builtin[name] {
			continue
		}
		file, ok := m.files[name]
		if !ok {
			return nil, fmt.Errorf("the kernel has no module %s: is it Debian's cloud kernel?", name)
		}
		below, err := dependencies(file)
		if err == nil {
			below, err = m.order(below...)
		}
		if err != nil {
			return nil, err
		}
		for _, f := range append(below, file) {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// dependencies reads a module's section .modinfo, a list of words that end with NUL:
//
//	license=GPL\0depends=virtio,virtio_ring\0retpoline=Y\0name=virtio_mmio\0
func dependencies(file string) ([]string, error) {
	e, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the kernel module %s: %w", file, err)
	}
	defer e.Close()
	section := e.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("read the kernel module %s: it has no section .modinfo", file)
	}
	text, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read the kernel module %s: %w", file, err)
	}
	for _, word := range strings.Split(string(text), "\x00") {
		if list, ok := strings.CutPrefix(word, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
