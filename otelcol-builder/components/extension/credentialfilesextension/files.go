package credentialfilesextension

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"
)

const othersMayRead = 0o007

// readable reads a file that may be public, and checks what is in it.
func readable(path string, check func([]byte) error) error {
	content, err := read(path)
	if err != nil {
		return err
	}
	return check(content)
}

// private reads a file that must not be open to every user of the machine. Its group may read it: that is how Kubernetes
// gives a secret to a process that is not root.
func private(path string) error {
	if _, err := read(path); err != nil {
		return err
	}
	state, err := os.Stat(path)
	if err != nil {
		return reason(err)
	}
	if mode := state.Mode().Perm(); mode&othersMayRead != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("is open to every user of this machine (mode %04o); run chmod o= on it, and replace what it"+
			" holds if others may have read it", mode)
	}
	return nil
}

func read(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, reason(err)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, errors.New("is empty; write it, or correct the path")
	}
	return content, nil
}

// reason says what a user can do; the error of the system repeats the path.
func reason(err error) error {
	var failure *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist; put the file there or correct the path")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("cannot be read by this user; give it to the collector's user or group")
	case errors.As(err, &failure):
		return fmt.Errorf("cannot be read (%w); correct the path", failure.Err)
	}
	return err
}

// allValid checks a certificate and its chain: one that has expired breaks it.
func allValid(content []byte, now time.Time) error {
	found, err := certificates(content)
	if err != nil {
		return err
	}
	for _, certificate := range found {
		if err := atThisTime(certificate, now); err != nil {
			return err
		}
	}
	return nil
}

// anyValid checks a bundle of authorities: old ones may stay in it while one of them is good.
func anyValid(content []byte, now time.Time) error {
	found, err := certificates(content)
	if err != nil {
		return err
	}
	for _, certificate := range found {
		if err = atThisTime(certificate, now); err == nil {
			return nil
		}
	}
	return err
}

func certificates(content []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a certificate that cannot be read (%w); write it anew in PEM", err)
		}
		found = append(found, certificate)
	}
	if len(found) == 0 {
		return nil, errors.New("has no certificate in PEM (-----BEGIN CERTIFICATE-----); convert it, or correct the path")
	}
	return found, nil
}

func atThisTime(certificate *x509.Certificate, now time.Time) error {
	const day = "2006-01-02 15:04 MST"
	switch {
	case now.After(certificate.NotAfter):
		return fmt.Errorf("has expired on %s (%s); renew it", certificate.NotAfter.UTC().Format(day), certificate.Subject)
	case now.Before(certificate.NotBefore):
		return fmt.Errorf("is valid from %s only (%s); wait, or correct the clock of this machine",
			certificate.NotBefore.UTC().Format(day), certificate.Subject)
	}
	return nil
}
