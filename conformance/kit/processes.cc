#include "conformance/kit/processes.h"

#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "conformance/kit/child.h"
#include "conformance/kit/steps.h"

namespace backplane::conformance {
namespace {

// Longer than the limit of a check, which then reports in which call a process hangs.
constexpr absl::Duration kGatherLimit = absl::Minutes(10);

}  // namespace

void Processes::Run(Kit& k, void (*body)(Processes&), int dying) {
  Processes p(k);
  p.count_ = k.setup().processes;
  if (p.count_ < 2) k.Skip("needs --processes 2 or more");
  // The input of the others is their number and the folder.
  const std::string input = ReadChildInput();
  std::string folder;
  std::vector<NewProcess> others;
  if (input.empty()) {
    folder = (std::filesystem::temp_directory_path() / "conform.XXXXXX").string();
    k.Require(mkdtemp(folder.data()) != nullptr, "the kit could not make a folder");
    for (int i = 1; i < p.count_; ++i) others.push_back(StartProcess(k, k.id(), absl::StrCat(i, " ", folder)));
  } else {
    const std::pair<std::string, std::string> parts = absl::StrSplit(input, absl::MaxSplits(' ', 1));
    if (!absl::SimpleAtoi(parts.first, &p.self_)) k.Fail("the kit's input is wrong");
    folder = parts.second;
  }
  p.store_ = std::make_unique<host::FolderKeyValueStore>(folder);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < others.size(); ++i) {
    threads.emplace_back([&, i] {
      const int number = static_cast<int>(i) + 1;
      const CheckOutcome outcome = JoinProcess(others[i], k.id());
      if (number == dying || outcome.result == Result::kPass) return;
      std::error_code error;
      std::filesystem::remove_all(folder, error);
      const std::string what = absl::StrCat("process ", number, ": ", outcome.detail);
      if (outcome.result == Result::kUnsupported) k.Unsupported(what);
      if (outcome.result == Result::kSkip) k.Skip(what);
      k.Fail(what);
    });
  }
  body(p);
  for (std::thread& thread : threads) thread.join();
  if (input.empty()) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }
}

Err Processes::TryClient(int64_t node_id, int64_t num_nodes, bool store) {
  PJRT_Client* client = nullptr;
  Err error =
      k_.TryNewClient({{"node_id", node_id}, {"num_nodes", num_nodes}}, store ? store_.get() : nullptr, &client);
  if (error.ok()) k_.UseClient(client);
  return error;
}

void Processes::CreateClient() {
  const Err error = TryClient(self_, count_);
  if (error.code == PJRT_Error_Code_UNIMPLEMENTED) k_.Unsupported("PJRT_Client_Create: ", FormatError(error));
  k_.Require(error.ok(), "PJRT_Client_Create: ", FormatError(error));
}

void Processes::DestroyClient() {
  Destroy(k_, k_.client());
  k_.UseClient(nullptr);
}

std::vector<PJRT_Device*> Processes::AllDevices() {
  KIT_ARGS(k_, a, PJRT_Client_Devices);
  a.client = k_.client();
  KIT_OK(k_, PJRT_Client_Devices, a);
  return std::vector<PJRT_Device*>(a.devices, a.devices + a.num_devices);
}

int Processes::GetProcess(PJRT_Device* device) {
  KIT_ARGS(k_, a, PJRT_DeviceDescription_ProcessIndex);
  a.device_description = GetDescription(k_, device);
  KIT_OK(k_, PJRT_DeviceDescription_ProcessIndex, a);
  return a.process_index;
}

std::vector<std::string> Processes::Gather(const std::string& value) {
  const auto key = [&](int process) { return absl::StrCat("kit/", gathered_, "/", process); };
  const absl::Status put = store_->Put(key(self_), value);
  k_.Require(put.ok(), "the kit's store: ", put.message());
  std::vector<std::string> all;
  for (int p = 0; p < count_; ++p) {
    absl::StatusOr<std::string> got = store_->Get(key(p), kGatherLimit);
    k_.Require(got.ok(), "the kit's store: ", got.status().message());
    all.push_back(*std::move(got));
  }
  ++gathered_;
  return all;
}

void Processes::Leave() {
  Barrier();
  DestroyClient();
  Barrier();
}

}  // namespace backplane::conformance
