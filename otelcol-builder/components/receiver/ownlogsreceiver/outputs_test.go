package ownlogsreceiver

import (
	"errors"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestNeitherTheConsoleNorTheOwnLogsShowThePasswordOfAnAddress(t *testing.T) {
	reading, writing, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	console := os.Stderr
	os.Stderr = writing
	config := zap.NewProductionConfig()
	config.Encoding = "console"
	config.OutputPaths = []string{"own-logs:stderr", "own-logs:"}
	logger, err := config.Build()
	os.Stderr = console
	if err != nil {
		t.Fatal(err)
	}
	logger.Error("no way", zap.String("url", "http://host:1/p?token=S3cr3t"), zap.Error(errors.New(`Post "http://team:S3cr3t@host:1": refused`)))
	_ = writing.Close()
	shown := make([]byte, 1<<16)
	count, _ := reading.Read(shown)
	taken, _ := processLines.take()
	for name, text := range map[string]string{"console": string(shown[:count]), "own logs": strings.Join(taken, "")} {
		if strings.Contains(text, "S3cr3t") || !strings.Contains(text, `Post \"http://host:1\": refused`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAnotherOutputIsRefusedWithThoseThatThereAre(t *testing.T) {
	config := zap.NewProductionConfig()
	config.OutputPaths = []string{"own-logs:file"}
	if _, err := config.Build(); err == nil || !strings.Contains(err.Error(), "own-logs:stderr") {
		t.Error(err)
	}
}
