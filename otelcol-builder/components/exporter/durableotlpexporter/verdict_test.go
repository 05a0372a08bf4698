package durableotlpexporter

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnErrorNamesItsFix(t *testing.T) {
	for text, fix := range map[string]string{
		"tls: failed to verify certificate: x509: certificate signed by unknown authority": "ca_file",
		"dial tcp: lookup gateway on 127.0.0.53:53: no such host":                          "host name",
		"rpc error: code = Unavailable desc = no children to pick from":                    "host name",
		"error reading server preface: http2: frame too large":                             "4317",
		"dial tcp 127.0.0.1:9: connect: connection refused":                                "start the endpoint",
		"rpc error: code = Unauthenticated desc = no":                                      "token",
		"responded with HTTP Status Code 403":                                              "token",
		"responded with HTTP Status Code 404":                                              "path",
		"responded with HTTP Status Code 415":                                              "compression: none",
		"responded with HTTP Status Code 503":                                              "log",
	} {
		assert.Contains(t, fixFor(unavailable, text), fix, text)
	}
}
