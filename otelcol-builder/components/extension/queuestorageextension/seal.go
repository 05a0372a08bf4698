package queuestorageextension

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A seal tells whether a value is what was written. It is a protobuf field with a number that nobody uses, at the end of the
// value: readers that do not know it skip it, so the stock storage extension reads sealed queues, and this one reads unsealed.
var (
	sealTag    = []byte{0xC1, 0x3E, 'o', 't', 'r', 'l'} // field 1000, fixed64: four letters and the checksum
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

const sealSize = 10

// isSealed says whether the values of a key carry a seal: the items of a queue and its state do.
func isSealed(key string) bool {
	_, isItem := itemIndex(key)
	return isItem || key == metadataKey
}

// seal returns the value with its seal.
func seal(value []byte) []byte {
	whole := make([]byte, 0, len(value)+sealSize)
	whole = append(append(whole, value...), sealTag...)
	return binary.LittleEndian.AppendUint32(whole, crc32.Checksum(value, castagnoli))
}

// unseal returns the value without its seal, and false when it is damaged. Values of before the seal pass as they are.
func unseal(whole []byte) ([]byte, bool) {
	start := len(whole) - sealSize
	if start < 0 || !bytes.Equal(whole[start:start+len(sealTag)], sealTag) {
		return whole, true
	}
	value := whole[:start]
	return value, crc32.Checksum(value, castagnoli) == binary.LittleEndian.Uint32(whole[start+len(sealTag):])
}
