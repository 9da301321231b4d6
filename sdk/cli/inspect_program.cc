// Describes a program: format, signature, sizes, operations and their cost.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/text/hlo_printer.h"
#include "sdk/cli/graph.h"
#include "sdk/cli/inspect.h"
#include "sdk/cli/npy.h"
#include "sdk/cli/program.h"
#include "sdk/host/status.h"

namespace backplane::cli {
namespace {

struct OpTotal {
  int64_t count = 0;
  Cost cost;
};

double LeafBytes(const Shape& shape) {
  double bytes = 0;
  ForEachLeaf(shape, [&](const Shape& leaf, const std::vector<int64_t>&) {
    if (leaf.IsArray()) bytes += static_cast<double>(leaf.byte_size());
  });
  return bytes;
}

// Totals by operation, over all computations. Each instruction counts once, because trip counts are unknown.
std::map<std::string, OpTotal> Totals(const Module& module) {
  std::map<std::string, OpTotal> totals;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      OpTotal& total = totals[std::string(OpName(instruction->opcode()))];
      ++total.count;
      Instruction::ContextStorage storage;
      const Cost cost = EstimateCost(instruction->Context(storage), instruction->shape());
      total.cost.flops += cost.flops;
      total.cost.transcendentals += cost.transcendentals;
      total.cost.bytes_accessed += cost.bytes_accessed;
    }
  }
  return totals;
}

}  // namespace

absl::Status InspectProgram(const InspectOptions& options, Terminal& terminal) {
  BP_ASSIGN_OR_RETURN(const ProgramFile file, ReadModule(options.what));
  const Module& module = *file.module;
  if (!options.graph.empty()) {
    BP_ASSIGN_OR_RETURN(const std::string svg, DrawGraphAsSvg(module));
    BP_RETURN_IF_ERROR(WriteFile(options.graph, svg));
  }
  if (options.text && !terminal.json()) {
    terminal.Print(PrintModule(module));
    return absl::OkStatus();
  }
  const ProgramShape signature = module.entry()->program_shape();
  double parameter_bytes = 0, constant_bytes = 0;
  for (const Shape& shape : signature.parameters) parameter_bytes += LeafBytes(shape);
  int64_t instructions = 0;
  for (const auto& computation : module.computations()) {
    instructions += computation->instruction_count();
    for (const auto& i : computation->instructions()) {
      if (i->Is(Opcode::kConstant)) constant_bytes += LeafBytes(i->shape());
    }
  }
  const std::map<std::string, OpTotal> totals = Totals(module);
  Cost all;
  for (const auto& [name, total] : totals) {
    all.flops += total.cost.flops;
    all.transcendentals += total.cost.transcendentals;
    all.bytes_accessed += total.cost.bytes_accessed;
  }
  const ModuleConfig& config = module.config();

  if (terminal.json()) {
    host::Json json = host::Json::MakeObject(), parameters = host::Json::MakeArray(),
               operations = host::Json::MakeArray();
    for (size_t i = 0; i < signature.parameters.size(); ++i) {
      parameters.Push(host::Json::MakeObject()
                          .Set("name", i < signature.parameter_names.size() ? signature.parameter_names[i] : "")
                          .Set("shape", signature.parameters[i].ToString()));
    }
    for (const auto& [name, total] : totals) {
      operations.Push(host::Json::MakeObject()
                          .Set("name", name)
                          .Set("count", total.count)
                          .Set("flops", total.cost.flops)
                          .Set("transcendentals", total.cost.transcendentals)
                          .Set("bytes_accessed", total.cost.bytes_accessed));
    }
    json.Set("name", module.name()).Set("form", FormName(file.form)).Set("file_bytes", file.bytes.size());
    json.Set("fingerprint", module.Fingerprint())
        .Set("parameters", std::move(parameters))
        .Set("result", signature.result.ToString());
    json.Set("parameter_bytes", parameter_bytes)
        .Set("result_bytes", LeafBytes(signature.result))
        .Set("constant_bytes", constant_bytes);
    json.Set("replicas", config.num_replicas).Set("partitions", config.num_partitions);
    json.Set("computations", module.computations().size()).Set("instructions", instructions);
    json.Set("flops", all.flops).Set("transcendentals", all.transcendentals).Set("bytes_accessed", all.bytes_accessed);
    json.Set("operations", std::move(operations));
    if (options.text) json.Set("text", PrintModule(module));
    terminal.PrintJson(json);
    return absl::OkStatus();
  }

  auto bold = [&](absl::string_view text) { return terminal.ApplyStyle(Style::kBold, text); };
  std::vector<std::vector<std::string>> rows = {
      {bold("program"), module.name()},
      {bold("form"), absl::StrCat(FormName(file.form), ", ", Bytes(static_cast<double>(file.bytes.size())))},
      {bold("fingerprint"), module.Fingerprint()}};
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    rows.push_back({bold(absl::StrCat("parameter ", i)), signature.parameters[i].ToString()});
  }
  rows.push_back({bold("result"), signature.result.ToString()});
  rows.push_back(
      {bold("bytes"), absl::StrCat(Bytes(parameter_bytes), " parameters, ", Bytes(LeafBytes(signature.result)),
                                   " result, ", Bytes(constant_bytes), " constants")});
  if (config.num_replicas * config.num_partitions > 1) {
    rows.push_back(
        {bold("devices"), absl::StrCat(config.num_replicas, " replicas, ", config.num_partitions, " partitions")});
  }
  rows.push_back({bold("size"), absl::StrCat(instructions, instructions == 1 ? " instruction in " : " instructions in ",
                                             module.computations().size(),
                                             module.computations().size() == 1 ? " computation" : " computations")});
  rows.push_back({bold("cost"), absl::StrFormat("%.4g flops, %.4g transcendentals, %s accessed (loops counted once)",
                                                all.flops, all.transcendentals, Bytes(all.bytes_accessed))});
  terminal.Print(FormatTable(rows));

  std::vector<std::pair<std::string, OpTotal>> order(totals.begin(), totals.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.cost.flops > b.second.cost.flops; });
  rows = {{bold("operation"), bold("count"), bold("flops"), bold("bytes")}};
  for (const auto& [name, total] : order) {
    rows.push_back(
        {name, absl::StrCat(total.count), absl::StrFormat("%.4g", total.cost.flops), Bytes(total.cost.bytes_accessed)});
  }
  terminal.Print(absl::StrCat("\n", FormatTable(rows, {1, 2, 3})));
  return absl::OkStatus();
}

}  // namespace backplane::cli
