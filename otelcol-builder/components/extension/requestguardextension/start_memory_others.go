//go:build !linux

package requestguardextension

func releaseProgramPages() {}
