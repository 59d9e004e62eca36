{{ config(enabled='contacts' in var('letters_parts')) }}

select
    contact_id,
    position as label_position,
    id as label_id,
    title as label
from {{ source('letters', 'contacts__contact_labels') }}
