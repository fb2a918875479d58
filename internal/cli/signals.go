package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// takeSignals takes what would end this command, for the sandbox that it boots, until stop.
func takeSignals() (signals <-chan os.Signal, stop func()) {
	all := make(chan os.Signal, 8)
	signal.Notify(all, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return all, func() { signal.Stop(all) }
}

// passOn hands signals on as numbers until over is called.
func passOn(signals <-chan os.Signal) (numbers <-chan int, over func()) {
	out, ended := make(chan int), make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				n, _ := s.(syscall.Signal)
				select {
				case out <- int(n):
				case <-ended:
					return
				}
			case <-ended:
				return
			}
		}
	}()
	return out, func() { close(ended) }
}
