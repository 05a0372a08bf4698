//go:build !unix

package requestguardextension

import "go.uber.org/zap"

func warnOfFewDescriptors(*zap.Logger) {}
