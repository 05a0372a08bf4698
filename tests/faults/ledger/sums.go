package main

import "math"

// Field numbers of the OTLP metric messages.
const (
	metricName     = 1
	metricSum      = 7
	sumPoints      = 1
	pointStart     = 2
	pointDouble    = 4
	pointInt       = 6
	pointAttribute = 7
)

// point is a data point of a sum; identity is the encoded resource, metric name and attributes.
type point struct {
	name     string
	identity string
	start    uint64
	value    float64
}

// decodeSums returns the data points of all sums of an export request.
func decodeSums(request []byte) (points []point, err error) {
	err = each(request, requestResources, func(group []byte) error {
		var resource []byte
		if err := each(group, resourceItself, func(content []byte) error {
			resource = content
			return nil
		}); err != nil {
			return err
		}
		return each(group, resourceScopes, func(scope []byte) error {
			return each(scope, scopeItems, func(metric []byte) error {
				found, err := decodeMetric(metric, string(resource))
				points = append(points, found...)
				return err
			})
		})
	})
	return points, err
}

func decodeMetric(metric []byte, resource string) (points []point, err error) {
	var name string
	if err := each(metric, metricName, func(content []byte) error {
		name = string(content)
		return nil
	}); err != nil {
		return nil, err
	}
	err = each(metric, metricSum, func(sum []byte) error {
		return each(sum, sumPoints, func(content []byte) error {
			read, err := decodePoint(content)
			read.name, read.identity = name, resource+"|"+name+"|"+read.identity
			points = append(points, read)
			return err
		})
	})
	return points, err
}

func decodePoint(content []byte) (read point, err error) {
	for part, err := range fields(content) {
		switch {
		case err != nil:
			return read, err
		case part.id == pointStart:
			read.start = part.number
		case part.id == pointDouble:
			read.value = math.Float64frombits(part.number)
		case part.id == pointInt:
			read.value = float64(int64(part.number))
		case part.id == pointAttribute:
			read.identity += string(part.content)
		}
	}
	return read, nil
}

// each calls visit for every field with the number `id`.
func each(message []byte, id int, visit func([]byte) error) error {
	for part, err := range fields(message) {
		if err != nil {
			return err
		}
		if part.id != id {
			continue
		}
		if err := visit(part.content); err != nil {
			return err
		}
	}
	return nil
}
