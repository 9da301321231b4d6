#include "plugins/hip/backend/product_tuner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/types/status_macros.h"
#include "plugins/hip/backend/product_comparison.h"
#include "sdk/backend/exceptions.h"

namespace backplane::hip {
namespace {

// A library is used if it takes less than this part of the kernel's time: what is less is noise.
constexpr double kClearlyFaster = 0.97;

std::string FormatSeconds(double seconds) { return absl::StrFormat("%.1f us", seconds * 1e6); }

// A product that a library computes in the place of a kernel.
class LibraryLaunch : public LaunchReplacement {
 public:
  LibraryLaunch(LibraryHandles& handles, ProductChoice choice) : handles_(handles), choice_(std::move(choice)) {}
  absl::Status Start(hipStream_t stream, absl::Span<void* const> arguments) const override {
    ASSIGN_OR_RETURN(LibraryHandle * handle, handles_.Find(*choice_.library, stream));
    return choice_.call->Enqueue(*handle, arguments[0], arguments[1], arguments[2]);
  }

 private:
  LibraryHandles& handles_;
  const ProductChoice choice_;
};

ProductChoice ChooseFastest(const std::vector<ProductComparison::Candidate>& candidates, double kernel_seconds) {
  ProductChoice choice;
  double best = kernel_seconds * kClearlyFaster;
  std::string notes;
  const auto describe = [](const ProductComparison::Candidate& c) {
    return c.call == nullptr ? "" : c.call->Describe();
  };
  for (const ProductComparison::Candidate& c : candidates) {
    if (!c.dropped.empty()) {
      absl::StrAppend(&notes, c.library->name(), describe(c), " is dropped: ", c.dropped, "; ");
      continue;
    }
    absl::StrAppend(&notes, c.library->name(), describe(c), " takes ", FormatSeconds(c.seconds), ", ");
    if (c.seconds < best) {
      best = c.seconds;
      choice.library = c.library, choice.call = c.call;
    }
  }
  if (kernel_seconds > 0) absl::StrAppend(&notes, "the kernel ", FormatSeconds(kernel_seconds), "; ");
  choice.note = absl::StrCat(notes, choice.call != nullptr
                                        ? absl::StrCat(choice.library->name(), choice.call->Describe(), " computes it")
                                        : "the kernel computes it");
  return choice;
}

}  // namespace

ProductChoice ProductTuner::Choose(Devices& devices, int device, const LibraryProduct& product,
                                   const LoadedKernels& kernels, ProductChoices& chosen) {
  const std::string key =
      absl::StrCat(devices.name(device), "; ", devices.architecture(device), "; ", product.product.ToString());
  if (const auto found = chosen.find(key); found != chosen.end()) return found->second;
  if (const auto found = choices_.find(key); found != choices_.end()) {
    chosen.emplace(key, found->second);
    return found->second;
  }
  ProductComparison comparison(devices, device, kernels, product);
  const auto candidates = CatchExceptions([&] { return comparison.Run(libraries_.libraries); });
  ProductChoice choice;
  if (!candidates.ok()) {
    // Another program may find more memory, so only this one keeps the choice.
    choice.note =
        absl::StrCat("not compared with libraries: ", candidates.status().message(), "; the kernel computes it");
    chosen.emplace(key, choice);
    return choice;
  }
  choice = ChooseFastest(*candidates, comparison.kernel_seconds());
  chosen.emplace(key, choice);
  if (choices_.size() >= kMaxChoices) {
    choices_.erase(order_.front());
    order_.pop_front();
  }
  choices_.emplace(key, choice);
  order_.push_back(key);
  return choice;
}

void ProductTuner::ReplaceKernels(Devices& devices, int device, absl::Span<const LibraryProduct> products,
                                  LoadedKernels& kernels, ProductChoices& chosen, std::vector<std::string>* notes) {
  notes->insert(notes->end(), libraries_.notes.begin(), libraries_.notes.end());
  if (!has_libraries() || products.empty()) return;
  MutexLock lock(mu_);
  std::vector<std::pair<int, ProductChoice>> by_library;
  for (const LibraryProduct& product : products) {
    ProductChoice choice = Choose(devices, device, product, kernels, chosen);
    notes->push_back(absl::StrCat(product.instruction, " on ", devices.name(device), " (", product.product.ToString(),
                                  "): ", choice.note));
    if (choice.call != nullptr) by_library.emplace_back(product.kernel, std::move(choice));
  }
  LibraryHandles& handles = devices.library_handles(device);
  for (auto& [kernel, choice] : by_library) {
    // The handle of the stream that runs most programs is made now: it needs memory, and making it may wait.
    const absl::Status ready = devices.PrepareLibrary(device, *choice.library);
    if (!ready.ok()) {
      notes->push_back(absl::StrCat("kernels compute all products on device ", device, ": ", ready.message()));
      return;
    }
    kernels.Replace(kernel, std::make_unique<LibraryLaunch>(handles, std::move(choice)));
  }
}

}  // namespace backplane::hip
