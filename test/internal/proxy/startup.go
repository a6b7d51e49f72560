package proxy

import (
	"bytes"
	"encoding/binary"
)

// protocolVersion3 is the major protocol version in the startup message of a Postgres session.
const protocolVersion3 = 3

// applicationName returns the application_name in a Postgres startup message. It is empty if the message is of another
// kind or has no name.
func applicationName(greeting []byte) string {
	const header = 8 // length and version
	if len(greeting) < header || binary.BigEndian.Uint16(greeting[4:6]) != protocolVersion3 {
		return ""
	}
	fields := bytes.Split(greeting[header:], []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		if string(fields[i]) == "application_name" {
			return string(fields[i+1])
		}
	}
	return ""
}
