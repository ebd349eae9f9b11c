//! The engine on real stores: a directory, S3 with and without compare-and-swap, WebDAV by Apache and by nginx.
//!
//! Every test runs once for each store. Each test starts its own server. A proxy in front of it makes the faults and keeps a log.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod contract;
mod cost;
mod dav_store;
mod drives;
mod file_store;
mod place;
mod processes;
mod requests;
mod s3_store;
mod shared_directory;
mod short_listings;
mod trouble;
mod verdict;

/// One test for each operation, in a module for each store.
macro_rules! stores {
    ($($store:ident),*) => {
        $(mod $store {
            use super::*;

            fn run<T>(test: impl AsyncFnOnce(place::Place) -> T) -> T {
                place::run(test(place::$store()))
            }

            #[test]
            fn the_contract_holds() {
                run(contract::holds);
            }

            #[test]
            fn counts_exactly_what_the_server_receives() {
                run(cost::is_what_the_server_is_sent);
            }

            #[test]
            fn the_probe_finds_the_stores_abilities() {
                run(verdict::is_right);
            }

            #[test]
            fn a_drive_is_written_here_and_read_there() {
                run(drives::move_to_an_empty_machine);
            }

            #[test]
            fn one_of_two_concurrent_openings_wins() {
                run(drives::open_at_once);
            }

            #[test]
            fn any_fault_at_one_request_only_delays_a_commit() {
                run(requests::of_commits);
            }

            #[test]
            fn after_any_fault_in_an_opening_another_one_succeeds() {
                run(requests::of_openings);
            }

            #[test]
            fn versions_are_kept_and_garbage_is_not() {
                run(drives::versions_and_garbage);
            }
        })*
    };
}

/// Tests of faults between a store's server and its clients.
macro_rules! servers {
    ($($store:ident),*) => {
        mod on_the_way_to {
            use super::*;

            $(mod $store {
                use super::*;

                fn run<T>(test: impl AsyncFnOnce(place::Place) -> T) -> T {
                    place::run(test(place::$store()))
                }

                #[test]
                fn a_cut_at_any_request_of_a_commit_only_delays_it() {
                    run(trouble::cuts);
                }

                #[test]
                fn a_machine_dying_during_a_commit_leaves_a_whole_drive() {
                    run(trouble::deaths);
                }

                #[test]
                fn retries_until_refusals_end() {
                    run(trouble::refusals);
                }

                #[test]
                fn sends_nothing_before_the_retry_time_has_passed() {
                    run(trouble::patience);
                }

                #[test]
                fn a_replica_sends_nothing_before_its_retry_time() {
                    run(trouble::patience_with_a_replica);
                }

                #[test]
                fn requests_that_come_late_or_twice_change_nothing() {
                    run(trouble::zombies);
                }
            })*
        }
    };
}

stores!(file, file_by_locks, s3, s3_without_swap, apache, nginx);
servers!(s3, s3_without_swap, apache, nginx);
