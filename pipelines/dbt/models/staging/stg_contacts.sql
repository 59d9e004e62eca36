{{ config(enabled='contacts' in var('letters_parts')) }}

select
    id as contact_id,
    full_name,
    company_name,
    city,
    state,
    zip,
    email,
    is_verified,
    is_live_mode,
    created_at
from {{ source('letters', 'contacts') }}
