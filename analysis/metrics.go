package analysis

// metricsOf summarises the metrics of a target: of untraced operations where
// they have them, since tracing changes some, else of traced ones.
func metricsOf(rows []MetricResult, target string) []MetricSummary {
	type values struct{ untraced, traced []float64 }
	var out []MetricSummary
	at := map[string]int{}
	var all []values
	for i := range rows {
		m := &rows[i]
		if m.Target != target {
			continue
		}
		k, known := at[m.Name]
		if !known {
			k = len(out)
			at[m.Name] = k
			out, all = append(out, MetricSummary{Name: m.Name, Unit: m.Unit}), append(all, values{})
		}
		if m.Traced {
			all[k].traced = append(all[k].traced, m.Value)
		} else {
			all[k].untraced = append(all[k].untraced, m.Value)
		}
	}
	for k := range out {
		if v := all[k].untraced; len(v) > 0 {
			out[k].Value = describe(v)
		} else {
			out[k].Traced, out[k].Value = true, describe(all[k].traced)
		}
	}
	return out
}
