#include "plugins/hip/report/code_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "plugins/hip/report/launches.h"
#include "plugins/hip/report/report_json.h"

namespace backplane::hip {
namespace {

std::string FormatNumber(int value) { return value < 0 ? "-" : absl::StrCat(value); }

std::string FormatResources(absl::Span<const ProgramKernels::Kernel> kernels,
                            absl::Span<const KernelResources> resources, const GpuTarget& target) {
  std::vector<std::vector<std::string>> rows = {{"kernel", "threads", "blocks", "VGPRs", "AGPRs", "SGPRs", "LDS",
                                                 "scratch", "spilled", "waves/SIMD", "code", "plan"}};
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelResources& r = resources[k];
    const bool known = r.vgprs >= 0;
    rows.push_back({kernels[k].name, absl::StrCat(kernels[k].plan.threads), absl::StrCat(kernels[k].plan.blocks),
                    FormatNumber(r.vgprs), FormatNumber(r.agprs), FormatNumber(r.sgprs),
                    known ? absl::StrCat(r.shared_bytes) : "-", FormatNumber(r.scratch_bytes),
                    FormatNumber(r.spilled_registers), FormatNumber(r.occupancy), FormatNumber(r.code_bytes),
                    kernels[k].plan.note});
  }
  std::string text = absl::StrCat("target ", target.name, ", waves of ", target.wave_size, " threads, ", kernels.size(),
                                  kernels.size() == 1 ? " kernel\n" : " kernels\n");
  if (kernels.empty()) return text;
  const size_t columns = rows[0].size();
  std::vector<size_t> widths(columns, 0);
  for (const auto& row : rows) {
    for (size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const bool left = c == 0 || c + 1 == columns;
      const std::string padding(widths[c] - row[c].size(), ' ');
      absl::StrAppend(&line, c == 0 ? "" : "  ", left ? "" : padding, row[c], c == 0 ? padding : "");
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> MakeCodeText(const Module& module, const GpuTarget& target, const Image& image,
                                         absl::string_view form) {
  if (form != "ir" && form != "isa" && form != "resources" && form != "report") {
    return absl::UnimplementedError(
        absl::StrCat("code text: no form \"", form, "\"; this plugin has ir, isa, resources, report"));
  }
  ProgramKernels kernels(target);
  ASSIGN_OR_RETURN(const std::vector<ProgramLaunch> launches, FindLaunches(module, kernels));
  const bool is_code = form == "ir" || form == "isa";
  if (is_code && kernels.kernels().empty()) return std::string();
  if (form == "ir") return kernels.CompileToText(CodeForm::kIr);
  if (form == "isa") return kernels.CompileToText(CodeForm::kAssembly);
  std::vector<std::string> names;
  for (const ProgramKernels::Kernel& k : kernels.kernels()) names.push_back(k.name);
  ASSIGN_OR_RETURN(const std::vector<KernelResources> resources, ReadResources(image.bytes, names, target));
  if (form == "resources") return FormatResources(kernels.kernels(), resources, target);
  return WriteReportJson(module, target, kernels.kernels(), resources, launches);
}

}  // namespace backplane::hip
