package microvm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// KernelVariable names the environment variable that says where the kernel's package lies
// unpacked, should it not be where scripts/setup puts it.
const KernelVariable = "PLIMSOLL_TEST_KERNEL"

const emulator = "qemu-system-x86_64"

// Tools is what a machine stands on that is not of this project.
type Tools struct {
	QEMU    string // the emulator
	Kernel  string // the kernel's image
	Modules string // the folder of its modules
}

// Find looks for the tools.
func Find() (Tools, error) {
	qemu, missing := exec.LookPath(emulator)
	if missing != nil {
		missing = fmt.Errorf("%s is not on PATH: run scripts/setup, or install Debian's package qemu-system-x86", emulator)
	}
	t, err := findKernel()
	t.QEMU = qemu
	return t, errors.Join(missing, err)
}

func findKernel() (Tools, error) {
	dir, err := kernelDir()
	if err != nil {
		return Tools{}, err
	}
	const remedy = "run scripts/setup, or unpack Debian's linux-image-*-cloud-amd64 with dpkg -x and name the folder in " + KernelVariable
	image, err := newest(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return Tools{}, fmt.Errorf("there is no kernel to boot: %w: %s", err, remedy)
	}
	modules, err := newest(filepath.Join(dir, "lib", "modules", "*"))
	if err != nil {
		return Tools{}, fmt.Errorf("the kernel %s has no modules: %w: %s", image, err, remedy)
	}
	return Tools{Kernel: image, Modules: modules}, nil
}

// kernelDir is where scripts/setup puts it, too.
func kernelDir() (string, error) {
	if dir := os.Getenv(KernelVariable); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cached kernel: %w: set HOME, or %s", err, KernelVariable)
	}
	return filepath.Join(cache, "plimsoll", "kernel"), nil
}

func newest(pattern string) (string, error) {
	all, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", fmt.Errorf("nothing matches %s", pattern)
	}
	return slices.Max(all), nil
}
