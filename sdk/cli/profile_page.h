// The page of `backplane run --profile-page`: where the time of a program is, beside what the plugin reaches elsewhere.
#ifndef BACKPLANE_SDK_CLI_PROFILE_PAGE_H_
#define BACKPLANE_SDK_CLI_PROFILE_PAGE_H_

#include <string>

#include "sdk/cli/profile.h"

namespace backplane::cli {

// Returns one HTML file (html.h).
std::string ProfilePage(const Profile& profile);

}  // namespace backplane::cli

#endif  // BACKPLANE_SDK_CLI_PROFILE_PAGE_H_
