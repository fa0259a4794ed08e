#include "output/emit.hpp"
#include "uprobectl/output.hpp"

namespace uprobectl {

namespace {

Error nothing_here(const ProbePoint& point) {
  return Error{ErrorKind::compressed, to_string(point.binary->path) +
                                          ": compressed in its archive, no file here has the place "
                                          "that a tool could probe"}
      .hint("on the device resolve the installed library, in the app's lib folder");
}

class EmitSink final : public Sink {
public:
  EmitSink(OutputBuffer& out, EmitTool tool, EmitMessages messages)
      : out_(out), tool_(tool), messages_(std::move(messages)) {}

  void match(const ProbePoint& point) override {
    const auto line = point.offset ? line_of(point) : uprobectl::fail(nothing_here(point));
    if (!line) {
      messages_.fail(line.error(), point);
      return;
    }
    out_.append(*line);
    out_.append("\n");
  }

  void static_probe(const StaticProbeRecord&) override {}
  void symbol(const SymbolRecord&) override {}
  void library(const LibraryRecord&) override {}
  void drift(const DriftRecord&) override {}
  void installed_probe(const InstalledProbe&) override {}
  void frame(const FrameRecord&) override {}
  void pinned(const Pin&) override {}
  void check(const Check&) override {}
  void map_entry(const MapEntryRecord&) override {}
  void attached(const AttachedRecord&) override {}
  void event(const Event&) override {}
  void probe(const ProbeRecord&) override {}
  void count(const CountRecord&) override {}
  void histogram(const HistogramRecord&) override {}
  void settle() override {}
  void lost(const LostRecord&) override {}
  void summary(const SummaryRecord&) override {}
  void error(const ErrorRecord&) override {}

private:
  Result<std::string> line_of(const ProbePoint& point) {
    switch (tool_) {
    case EmitTool::bpftrace: {
      auto line = bpftrace_.line(point);
      if (!line) return fail(std::move(line).error());
      if (line->needs)
        messages_.warn(to_string(point.binary->path) + ": '" + point.request +
                       "': bpftrace needs " + *line->needs);
      return std::move(line->text);
    }
    case EmitTool::tracefs:
      return emit::tracefs_line(point, names_.name(point));
    case EmitTool::perf:
      return emit::perf_line(point, names_.name(point));
    case EmitTool::libbpf:
      break;
    }
    return emit::libbpf_line(point);
  }

  OutputBuffer& out_;
  EmitTool tool_;
  EmitMessages messages_;
  emit::EventNames names_;
  emit::Bpftrace bpftrace_;
};

} // namespace

std::optional<EmitTool> parse_emit_tool(std::string_view name) {
  if (name == "bpftrace") return EmitTool::bpftrace;
  if (name == "tracefs") return EmitTool::tracefs;
  if (name == "perf") return EmitTool::perf;
  if (name == "libbpf") return EmitTool::libbpf;
  return std::nullopt;
}

std::unique_ptr<Sink> make_emit_sink(OutputBuffer& out, EmitTool tool, EmitMessages messages) {
  return std::make_unique<EmitSink>(out, tool, std::move(messages));
}

} // namespace uprobectl
