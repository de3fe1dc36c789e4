//! Flags of OpenTelemetry traces. The variables are OpenTelemetry's own.

use anyhow::bail;
use clap::Args;
use segno_server::TraceOptions;

use crate::exit::Usage;

/// Where traces of calls go.
#[derive(Args, Clone, Debug)]
pub struct Traces {
    /// Send a span for each gRPC call to this collector, over OTLP/HTTP: http://127.0.0.1:4318.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Share of the calls without a trace context that are traced, 0 to 1.
    #[arg(long, env = "SEGNO_TRACE_SAMPLE", default_value_t = 1.0, value_name = "FRACTION", value_parser = fraction)]
    trace_sample: f64,
    /// Headers for the collector: name=value, with commas between.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_HEADERS", value_name = "HEADERS", hide_env_values = true)]
    otlp_headers: Option<String>,
    /// Name of this service in traces.
    #[arg(long, env = "OTEL_SERVICE_NAME", default_value = "segno", value_name = "NAME")]
    otlp_service_name: String,
}

impl Traces {
    /// What the server needs; none if there is no collector.
    pub fn options(self) -> anyhow::Result<Option<TraceOptions>> {
        let Some(endpoint) = self.otlp_endpoint.filter(|endpoint| !endpoint.is_empty()) else { return Ok(None) };
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            bail!(Usage(format!(
                "--otlp-endpoint is a URL of OTLP over HTTP, such as http://127.0.0.1:4318, not `{endpoint}`"
            )));
        }
        let mut headers = Vec::new();
        for pair in self.otlp_headers.iter().flat_map(|list| list.split(',')).filter(|pair| !pair.trim().is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                bail!(Usage("--otlp-headers has pairs name=value with commas between them".to_owned()));
            };
            headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let (service, fraction) = (self.otlp_service_name, self.trace_sample);
        Ok(Some(TraceOptions { endpoint, headers, service, fraction }))
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => Err("a number from 0 to 1 is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_url_or_header_is_refused() {
        let traces = |endpoint: &str, headers: &str| Traces {
            otlp_endpoint: Some(endpoint.to_owned()),
            trace_sample: 0.5,
            otlp_headers: Some(headers.to_owned()),
            otlp_service_name: "segno".to_owned(),
        };
        let options = traces("http://127.0.0.1:4318", "a=b, c = d=e").options().expect("good").expect("some");
        assert_eq!(options.headers, [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d=e".to_owned())]);
        assert!(traces("", "").options().expect("good").is_none());
        assert!(traces("127.0.0.1:4317", "").options().is_err());
        assert!(traces("http://127.0.0.1:4318", "secret").options().is_err());
        assert!(fraction("1.5").is_err() && fraction("x").is_err() && fraction("0").is_ok());
    }
}
